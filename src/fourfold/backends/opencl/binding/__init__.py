"""OpenCL 1.2 through ctypes, as far as the backend needs it.

Importing pyopencl takes longer than starting a prepared model.
"""

from __future__ import annotations

from fourfold.backends.opencl.binding.calls import API, Error, info
from fourfold.backends.opencl.binding.objects import (
    Buffer,
    Context,
    Device,
    Image,
    Kernel,
    Platform,
    Program,
    platforms,
)
from fourfold.backends.opencl.binding.queue import Call, Event, Memory, Queue

__all__ = [
    "API",
    "Buffer",
    "Call",
    "Context",
    "Device",
    "Error",
    "Event",
    "Image",
    "Kernel",
    "Memory",
    "Platform",
    "Program",
    "Queue",
    "info",
    "platforms",
]
