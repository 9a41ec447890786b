"""CUDA devices and their primary contexts, which all libraries of a process share."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p

from fourfold.backends.cuda.binding.calls import (
    API,
    Error,
    call,
    call_found,
    give_back,
    quick_function,
)
from fourfold.support.forks import used

UNITS, INTEGRATED, MAPS_HOST = 16, 18, 19
MAJOR, MINOR, COOPERATES = 75, 76, 95
REACHES_PAGEABLE = 88  # kernels take any address of the host
LOCAL_MEMORY, ASKED_LOCAL_MEMORY, WORK_GROUP = 8, 97, 1
_PUSH, _POP, _DESTROYED = "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", 709


class Device:
    """One GPU and its properties."""

    def __init__(self, ordinal: int) -> None:
        handle = c_int()
        call("cuDeviceGet", byref(handle), ordinal)
        self.handle, self.ordinal = handle, ordinal

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", text, len(text), self.handle)
        return text.value.decode(errors="replace")

    @property
    def uuid(self) -> str:
        uuid_bytes = ctypes.create_string_buffer(16)
        call("cuDeviceGetUuid", uuid_bytes, self.handle)
        return uuid_bytes.raw.hex()

    @property
    def memory(self) -> int:
        size = c_size_t()
        call("cuDeviceTotalMem_v2", byref(size), self.handle)
        return size.value

    def attribute(self, what: int) -> int:
        value = c_int()
        call("cuDeviceGetAttribute", byref(value), what, self.handle)
        return value.value


class Context:
    """The primary context of a device, shared with PyTorch and CuPy."""

    def __init__(self, device: Device) -> None:
        pointer = c_void_p()
        call("cuDevicePrimaryCtxRetain", byref(pointer), device.handle)
        self.device, self.pointer = device, pointer
        self._dropped = False
        self._push, self._pop = quick_function(_PUSH), quick_function(_POP)  # used in every run
        self._popped = byref(c_void_p())

    def push(self) -> None:
        """Make it current in this thread until it is popped."""
        if self._dropped:
            raise Error(_PUSH, _DESTROYED)
        call_found(_PUSH, self._push, self.pointer)

    def pop(self) -> None:
        """Restore the context that was current before."""
        call_found(_POP, self._pop, self._popped)

    def __enter__(self) -> None:
        self.push()

    def __exit__(self, *_error: object) -> None:
        self.pop()

    def drop(self) -> bool:
        """Release it after it was lost; returns False if other libraries of the process hold it as
        well.

        Objects of it must not be freed afterwards: their addresses may be reused by others.
        """
        if self._dropped:
            return True
        self._dropped = True
        flags, active = c_uint(), c_int()
        give_back("cuDevicePrimaryCtxRelease_v2", self.device.handle)
        call("cuDevicePrimaryCtxGetState", self.device.handle, byref(flags), byref(active))
        return not active.value


def devices() -> list[Device]:
    """Return all devices; an Error if the driver finds none, OSError if there is no driver."""
    used.add(API)
    call("cuInit", 0)
    count = c_int()
    call("cuDeviceGetCount", byref(count))
    return [Device(ordinal) for ordinal in range(count.value)]


def driver_version() -> int:
    """Return the CUDA version that the driver supports, as 12040 for 12.4."""
    version = c_int()
    call("cuDriverGetVersion", byref(version))
    return version.value
