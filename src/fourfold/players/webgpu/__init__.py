"""Run plans with WebGPU: Metal, Vulkan and DX12 through wgpu-native."""

from __future__ import annotations

from fourfold.players.protocol import Backend
from fourfold.players.webgpu.backend import WebGpuBackend

BACKEND: Backend = WebGpuBackend()
