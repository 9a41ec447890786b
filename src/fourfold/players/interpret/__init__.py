"""Run plans in NumPy, work-item by work-item, and check their kernels for errors."""

from __future__ import annotations

from fourfold.players.interpret.backend import InterpretBackend
from fourfold.players.protocol import Backend

BACKEND: Backend = InterpretBackend()
