"""Run plans with WebGPU: Metal, Vulkan and DX12 through wgpu-native."""

from __future__ import annotations

from fourfold.backends.protocol import Backend
from fourfold.backends.webgpu.backend import WebGpuBackend

BACKEND: Backend = WebGpuBackend()
