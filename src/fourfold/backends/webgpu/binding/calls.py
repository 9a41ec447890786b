"""Calls into wgpu-native: its library, its functions, and its errors.

The library is that of the package wgpu, which itself is not imported.
"""

from __future__ import annotations

import os
import sys
from ctypes import (
    CDLL,
    POINTER,
    PyDLL,
    c_float,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from importlib.util import find_spec
from typing import Any

from fourfold.backends.webgpu.binding.structures import AdapterInfo, CallbackInfo
from fourfold.support.forks import lost

PACKAGE = "wgpu"
KNOWN = 29  # major version of the structures and functions below
_LIBRARY_NAMES = {"win32": "wgpu_native-release.dll", "darwin": "libwgpu_native-release.dylib"}
_P, _BOOL, _STATUS = c_void_p, c_uint32, c_uint32
_FUTURE = c_uint64  # a structure of one number
_POLL = (_P, _BOOL, POINTER(c_uint64))
# Result type and argument types of each function.
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "wgpuAdapterGetInfo": (_STATUS, (_P, _P)),
    "wgpuAdapterGetLimits": (_STATUS, (_P, _P)),
    "wgpuAdapterHasFeature": (_BOOL, (_P, c_uint32)),
    "wgpuAdapterInfoFreeMembers": (None, (AdapterInfo,)),
    "wgpuAdapterRequestDevice": (_FUTURE, (_P, _P, CallbackInfo)),
    "wgpuBindGroupLayoutRelease": (None, (_P,)),
    "wgpuBindGroupRelease": (None, (_P,)),
    "wgpuBufferDestroy": (None, (_P,)),
    "wgpuBufferGetMappedRange": (_P, (_P, c_size_t, c_size_t)),
    "wgpuBufferGetConstMappedRange": (_P, (_P, c_size_t, c_size_t)),
    "wgpuBufferMapAsync": (_FUTURE, (_P, c_uint64, c_size_t, c_size_t, CallbackInfo)),
    "wgpuBufferRelease": (None, (_P,)),
    "wgpuBufferUnmap": (None, (_P,)),
    "wgpuCommandBufferRelease": (None, (_P,)),
    "wgpuCommandEncoderBeginComputePass": (_P, (_P, _P)),
    "wgpuCommandEncoderClearBuffer": (None, (_P, _P, c_uint64, c_uint64)),
    "wgpuCommandEncoderCopyBufferToBuffer": (None, (_P, _P, c_uint64, _P, c_uint64, c_uint64)),
    "wgpuCommandEncoderFinish": (_P, (_P, _P)),
    "wgpuCommandEncoderRelease": (None, (_P,)),
    "wgpuCommandEncoderResolveQuerySet": (None, (_P, _P, c_uint32, c_uint32, _P, c_uint64)),
    "wgpuComputePassEncoderEnd": (None, (_P,)),
    "wgpuComputePassEncoderRelease": (None, (_P,)),
    "wgpuComputePipelineRelease": (None, (_P,)),
    "wgpuCreateInstance": (_P, (_P,)),
    "wgpuDeviceCreateBindGroup": (_P, (_P, _P)),
    "wgpuDeviceCreateBindGroupLayout": (_P, (_P, _P)),
    "wgpuDeviceCreateBuffer": (_P, (_P, _P)),
    "wgpuDeviceCreateCommandEncoder": (_P, (_P, _P)),
    "wgpuDeviceCreateComputePipeline": (_P, (_P, _P)),
    "wgpuDeviceCreatePipelineLayout": (_P, (_P, _P)),
    "wgpuDeviceCreateQuerySet": (_P, (_P, _P)),
    "wgpuDeviceCreateShaderModule": (_P, (_P, _P)),
    "wgpuDeviceDestroy": (None, (_P,)),
    "wgpuDeviceGetQueue": (_P, (_P,)),
    "wgpuDevicePoll": (_BOOL, _POLL),
    "wgpuGetVersion": (c_uint32, ()),
    "wgpuInstanceEnumerateAdapters": (c_size_t, (_P, _P, _P)),
    "wgpuInstanceProcessEvents": (None, (_P,)),
    "wgpuPipelineLayoutRelease": (None, (_P,)),
    "wgpuQuerySetRelease": (None, (_P,)),
    "wgpuQueueGetTimestampPeriod": (c_float, (_P,)),
    "wgpuQueueSubmitForIndex": (c_uint64, (_P, c_size_t, POINTER(c_void_p))),
    "wgpuQueueWriteBuffer": (None, (_P, _P, c_uint64, _P, c_size_t)),
    "wgpuShaderModuleRelease": (None, (_P,)),
}


@cache
def library() -> CDLL:
    """Load the functions so that they release the GIL. Raises OSError if the package is missing."""
    functions = CDLL(_path())
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments
    return functions


@cache
def quick_library() -> PyDLL:
    """Load the same functions without releasing the GIL, for calls of less than a microsecond.
    Arguments are not converted: they are ctypes objects.
    """
    functions = PyDLL(_path())
    for name in ("SetPipeline", "SetBindGroup", "DispatchWorkgroups"):
        getattr(functions, f"wgpuComputePassEncoder{name}").restype = None
    return functions


def version() -> tuple[int, int, int]:
    """Return the version of the library: (29, 0, 1)."""
    number = library().wgpuGetVersion()
    return number >> 24, number >> 16 & 0xFF, number >> 8 & 0xFF


@cache
def _path() -> str:
    spec = find_spec(PACKAGE)
    name = _LIBRARY_NAMES.get(sys.platform, "libwgpu_native-release.so")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = os.path.join(folder, "resources", name)
        if os.path.exists(path):
            return path
    why = f"the package {PACKAGE} is not installed"
    why = why if spec is None else f"the package {PACKAGE} has no {name}"
    raise OSError(why)


API = "webgpu"
VALIDATION, OUT_OF_MEMORY, INTERNAL, UNKNOWN = 2, 3, 4, 5
LOST = 0  # our own value for a lost device
_NAMES = {LOST: "lost", VALIDATION: "refused", OUT_OF_MEMORY: "out of memory", INTERNAL: "internal"}


class Error(Exception):
    """A function that failed, the type of error, and the library's message."""

    def __init__(self, function: str, kind: int, message: str) -> None:
        super().__init__(function, kind, message)
        self.function, self.kind, self.message = function, kind, message

    @property
    def out_of_memory(self) -> bool:
        return self.kind == OUT_OF_MEMORY

    @property
    def lost(self) -> bool:
        """Return True if the device is unusable."""
        return self.kind == LOST

    def __str__(self) -> str:
        lines = [line.strip(" \t│├╭╰─┌└") for line in self.message.splitlines()]
        text = "; ".join(line for line in lines if line)
        return f"{self.function} failed ({_NAMES.get(self.kind, 'unknown')}): {text}"


def give_back(name: str, *handles: object) -> None:
    """Call a function that frees something; does nothing in a forked child, where all belongs to
    the parent.
    """
    if API not in lost:
        getattr(library(), name)(*handles)
