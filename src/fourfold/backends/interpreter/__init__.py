"""Run plans in NumPy, work-item by work-item, and check their kernels for errors."""

from __future__ import annotations

from fourfold.backends.interpreter.backend import InterpretBackend
from fourfold.backends.protocol import Backend

BACKEND: Backend = InterpretBackend()
