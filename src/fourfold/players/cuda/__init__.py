"""Plays plans by CUDA on NVIDIA's GPUs."""

from __future__ import annotations

from fourfold.players.cuda.backend import CudaBackend
from fourfold.players.protocol import Backend

BACKEND: Backend = CudaBackend()
