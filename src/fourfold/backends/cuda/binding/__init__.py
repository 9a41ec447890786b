"""CUDA's driver API through ctypes, as far as the backend needs it."""

from __future__ import annotations

from fourfold.backends.cuda.binding.calls import API, Error
from fourfold.backends.cuda.binding.device import Context, Device, devices, driver_version
from fourfold.backends.cuda.binding.objects import (
    DEFAULT_STREAM,
    DEFAULT_STREAMS,
    DeviceBuffer,
    Event,
    Function,
    Graph,
    HostBuffer,
    Launch,
    Module,
    Stream,
    Value,
)

__all__ = [
    "API",
    "DEFAULT_STREAM",
    "DEFAULT_STREAMS",
    "Context",
    "Device",
    "DeviceBuffer",
    "Error",
    "Event",
    "Function",
    "Graph",
    "HostBuffer",
    "Launch",
    "Module",
    "Stream",
    "Value",
    "devices",
    "driver_version",
]
