"""Run plans with CUDA on NVIDIA GPUs."""

from __future__ import annotations

from fourfold.backends.cuda.backend import CudaBackend
from fourfold.backends.protocol import Backend

BACKEND: Backend = CudaBackend()
