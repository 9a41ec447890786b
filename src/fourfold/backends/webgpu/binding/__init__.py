"""WebGPU through wgpu-native's C functions and ctypes, as far as the backend needs it."""

from __future__ import annotations

from fourfold.backends.webgpu.binding.adapter import Adapter, adapters
from fourfold.backends.webgpu.binding.calls import API, KNOWN, Error, version
from fourfold.backends.webgpu.binding.device import Device
from fourfold.backends.webgpu.binding.objects import (
    COPY_SOURCE,
    COPY_TARGET,
    QUERY_RESOLVE,
    STORAGE,
    UNIFORM,
    WORD,
    BindGroup,
    Bound,
    Buffer,
    Commands,
    Layout,
    Pipeline,
    QuerySet,
    Recording,
    Staging,
)

__all__ = [
    "API",
    "COPY_SOURCE",
    "COPY_TARGET",
    "KNOWN",
    "QUERY_RESOLVE",
    "STORAGE",
    "UNIFORM",
    "WORD",
    "Adapter",
    "BindGroup",
    "Bound",
    "Buffer",
    "Commands",
    "Device",
    "Error",
    "Layout",
    "Pipeline",
    "QuerySet",
    "Recording",
    "Staging",
    "adapters",
    "version",
]
