"""Run plans with CUDA on NVIDIA GPUs."""

from __future__ import annotations

from fourfold.players.cuda.backend import CudaBackend
from fourfold.players.protocol import Backend

BACKEND: Backend = CudaBackend()
