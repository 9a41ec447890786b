"""Plays plans in NumPy, work-item by work-item, and finds what is wrong with their kernels."""

from __future__ import annotations

from fourfold.players.interpret.backend import InterpretBackend
from fourfold.players.protocol import Backend

BACKEND: Backend = InterpretBackend()
