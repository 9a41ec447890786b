"""Run plans on OpenCL devices."""

from __future__ import annotations

from fourfold.players.opencl.backend import OpenCLBackend
from fourfold.players.protocol import Backend

BACKEND: Backend = OpenCLBackend()
