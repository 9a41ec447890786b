"""Run plans on OpenCL devices."""

from __future__ import annotations

from fourfold.backends.opencl.backend import OpenCLBackend
from fourfold.backends.protocol import Backend

BACKEND: Backend = OpenCLBackend()
