"""Devices, contexts, buffers, programs, kernels: handles with reference counts."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32, c_int64, c_size_t, c_ssize_t, c_uint, c_uint64, c_void_p
from typing import Any, TypeVar

import numpy as np

from fourfold.backends.opencl.binding.calls import (
    API,
    Error,
    call,
    check_process,
    info,
    library,
    make,
    quick_library,
)
from fourfold.backends.opencl.binding.pocl_cpu import name_unknown_cpu
from fourfold.support.forks import lost, used

_ANY_DEVICE = c_uint64(0xFFFFFFFF)
_PARTITION_METHODS, _EQUALLY, _BY_COUNTS, _CANNOT_PARTITION = 0x1044, 0x1086, 0x1087, -18
_PLATFORM_NAME, _DEVICE_NAME, _CONTEXT_PLATFORM = 0x0902, 0x102B, 0x1084
_BUILD_LOG, _BINARY_SIZES, _BINARIES = 0x1183, 0x1165, 0x1166
_READ_WRITE, _READ_ONLY, _USE, _HOST_MEMORY, _COPY = 1 << 0, 1 << 2, 1 << 3, 1 << 4, 1 << 5
_REGION, _IMAGE_OF_BUFFER = 0x1220, 0x10F6
_POINTER = ctypes.sizeof(c_void_p)  # bytes of a cl_mem on the host
_RGBA, _HALF_FLOAT, _FLOAT = 0x10B5, 0x10DD, 0x10DE

B = TypeVar("B", bound="Buffer")


class Handle:
    """Reference to an object of the driver; dropped by `release`, or with this object.

    In a forked process, objects of the parent are left alone.
    """

    _kind = ""
    # Attributes, since module globals may be gone when the last handles are deleted.
    _lost, _api = lost, API

    def __init__(self, pointer: c_void_p) -> None:
        self.pointer: c_void_p | None = pointer
        self._give_back = library()[f"clRelease{self._kind}"]

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None and self._api not in self._lost:
            self._give_back(pointer)

    def __del__(self) -> None:
        if getattr(self, "pointer", None) is not None:
            self.release()


class Platform:
    """One driver."""

    def __init__(self, pointer: c_void_p) -> None:
        self.pointer = pointer
        self.name = _text(info("clGetPlatformInfo", pointer, _PLATFORM_NAME))

    def devices(self) -> list[Device]:
        """Return its devices of any type; raises an Error if there is none."""
        pointers = _list("clGetDeviceIDs", self.pointer, _ANY_DEVICE)
        for pointer in pointers:
            name_unknown_cpu(self.name, pointer)
        return [Device(one, self) for one in pointers]


class Device:
    """One device and its properties."""

    def __init__(self, pointer: c_void_p, platform: Platform) -> None:
        self.pointer, self.platform = pointer, platform
        self.name = self.text(_DEVICE_NAME)

    def part(self, units: int) -> Device:
        """Create a sub-device with this many units; raises an Error if the driver cannot partition
        it.
        """
        values = self.raw(_PARTITION_METHODS)
        supported = (c_ssize_t * (len(values) // _POINTER)).from_buffer_copy(values)
        for method in (_BY_COUNTS, _EQUALLY):
            if method in supported:
                what = (c_ssize_t * 4)(method, units, 0, 0)
                return Device(_list("clCreateSubDevices", self.pointer, what)[0], self.platform)
        raise Error("clCreateSubDevices", _CANNOT_PARTITION)

    def text(self, what: int) -> str:
        return _text(self.raw(what))

    def number(self, what: int) -> int:
        return int.from_bytes(self.raw(what), "little")

    def raw(self, what: int) -> bytes:
        return info("clGetDeviceInfo", self.pointer, what)


def platforms() -> list[Platform]:
    """Return all drivers, which are in use from now on (see forks); raises an Error if there is
    none.
    """
    used.add(API)  # before the call: another thread may fork meanwhile
    try:
        return [Platform(one) for one in _list("clGetPlatformIDs")]
    except (Error, OSError):
        used.discard(API)
        raise


def _list(name: str, *which: Any) -> list[c_void_p]:
    count = c_uint()
    call(name, *which, 0, None, byref(count))
    handles = (c_void_p * count.value)()
    if handles:
        call(name, *which, count, handles, None)
    return [c_void_p(one) for one in handles]


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace").strip()


class Context(Handle):
    """Context of one device."""

    _kind = "Context"

    def __init__(self, device: Device) -> None:
        self.device = device
        which = (c_void_p * 3)(_CONTEXT_PLATFORM, device.platform.pointer.value, None)
        own = byref(device.pointer)
        super().__init__(make("clCreateContext", which, 1, own, None, None))

    @staticmethod
    def held(pointer: int, device: Device) -> Context:
        """Add a reference to a context of the caller."""
        call("clRetainContext", c_void_p(pointer))
        context = Context.__new__(Context)
        context.device = device
        Handle.__init__(context, c_void_p(pointer))
        return context


class Buffer(Handle):
    """Device memory: empty, or a copy of an array; `host` requests memory that the
    CPU can access.
    """

    _kind = "MemObject"

    def __init__(self, context: Context, size: int, host: bool = False) -> None:
        flags = _READ_WRITE | (_HOST_MEMORY if host else 0)
        self._make(context, flags, size, None)

    @classmethod
    def of(cls: type[B], context: Context, array: np.ndarray, writable: bool = False) -> B:
        buffer = cls.__new__(cls)
        flags = _COPY | (_READ_WRITE if writable else _READ_ONLY)
        buffer._make(context, flags, array.nbytes, address_of(array))
        return buffer

    @classmethod
    def at(cls, context: Context, array: np.ndarray) -> Buffer:
        """Create a buffer in the memory of an array, which must outlive it."""
        buffer = cls.__new__(cls)
        buffer._make(context, _READ_WRITE | _USE, array.nbytes, address_of(array))
        return buffer

    @classmethod
    def held(cls, pointer: int) -> Buffer:
        """Add a reference to memory of the caller; raises an Error if it is not memory."""
        call("clRetainMemObject", c_void_p(pointer))
        buffer = cls.__new__(cls)
        Handle.__init__(buffer, c_void_p(pointer))
        return buffer

    def number(self, what: int) -> int:
        """Query a property of the memory: a size, a type, a context."""
        return int.from_bytes(info("clGetMemObjectInfo", self.pointer, what), "little")

    def image_number(self, what: int) -> int:
        """Query a property of an image."""
        return int.from_bytes(info("clGetImageInfo", self.pointer, what), "little")

    def part(self, start: int, size: int) -> Buffer:
        """Return a part of the buffer without a copy; the device limits where it may start."""
        part = Buffer.__new__(Buffer)
        region = (c_size_t * 2)(start, size)
        Handle.__init__(part, make("clCreateSubBuffer", self.pointer, c_uint64(0), _REGION, region))
        return part

    def _make(self, context: Context, flags: int, size: int, start: c_void_p | None) -> None:
        pointer = make("clCreateBuffer", context.pointer, c_uint64(flags), c_size_t(size), start)
        super().__init__(pointer)


class _ImageShape(ctypes.Structure):
    """cl_image_desc."""

    _fields_ = (
        ("type", c_uint),
        ("width", c_size_t),
        ("others", c_size_t * 5),
        ("samples", c_uint * 2),
        ("buffer", c_void_p),
    )


class Image(Handle):
    """A part of a buffer as texels of four fp32 or four fp16."""

    _kind = "MemObject"

    def __init__(self, context: Context, buffer: Buffer, count: int, half: bool) -> None:
        """Create an image of the first `count` texels."""
        form = (c_uint * 2)(_RGBA, _HALF_FLOAT if half else _FLOAT)
        shape = _ImageShape(type=_IMAGE_OF_BUFFER, width=count, buffer=buffer.pointer)
        super().__init__(
            make("clCreateImage", context.pointer, c_uint64(_READ_ONLY), form, byref(shape), None)
        )
        self._buffer = buffer  # not all drivers keep it alive for the image


class Program(Handle):
    """Kernels from source text or a binary; they must be built before use."""

    _kind = "Program"

    def __init__(self, context: Context, pointer: c_void_p) -> None:
        super().__init__(pointer)
        self._device = context.device

    @staticmethod
    def of_text(context: Context, text: str) -> Program:
        source = ctypes.c_char_p(text.encode())
        name = "clCreateProgramWithSource"
        return Program(context, make(name, context.pointer, 1, byref(source), None))

    @staticmethod
    def of_binary(context: Context, binary: bytes) -> Program:
        device, data = byref(context.device.pointer), ctypes.c_char_p(binary)
        size, taken = c_size_t(len(binary)), ctypes.c_int()
        name = "clCreateProgramWithBinary"
        return Program(
            context, make(name, context.pointer, 1, device, byref(size), byref(data), byref(taken))
        )

    @staticmethod
    def of_part(context: Context, part: Program) -> Program:
        """Link a compiled program into an executable one."""
        own, programs = byref(context.device.pointer), (c_void_p * 1)(part.pointer)
        name = "clLinkProgram"
        return Program(context, make(name, context.pointer, 1, own, None, 1, programs, None, None))

    def compile(self, options: str) -> None:
        own = byref(self._device.pointer)
        call("clCompileProgram", self.pointer, 1, own, options.encode(), 0, None, None, None, None)

    def build(self, options: str) -> None:
        own = byref(self._device.pointer)
        call("clBuildProgram", self.pointer, 1, own, options.encode(), None, None)

    @property
    def log(self) -> str:
        """Return the compiler's log."""
        device = self._device.pointer
        return _text(info("clGetProgramBuildInfo", self.pointer, device, _BUILD_LOG))

    @property
    def binary(self) -> bytes:
        """Return data for `of_binary`; empty if the driver has none."""
        size = int.from_bytes(info("clGetProgramInfo", self.pointer, _BINARY_SIZES), "little")
        data = ctypes.create_string_buffer(size)
        pointers = (c_void_p * 1)(ctypes.addressof(data))
        size_of_pointers = c_size_t(ctypes.sizeof(pointers))
        call("clGetProgramInfo", self.pointer, _BINARIES, size_of_pointers, pointers, None)
        return data.raw


class Kernel(Handle):
    """A kernel with its arguments."""

    _kind = "Kernel"

    def __init__(self, program: Program, entry: str) -> None:
        super().__init__(make("clCreateKernel", program.pointer, entry.encode()))
        self._set = quick_library()["clSetKernelArg"]

    def set_buffer(self, position: int, buffer: Buffer | Image | None) -> None:
        """Set a pointer argument; None is a null pointer."""
        self._put(position, _POINTER, c_void_p() if buffer is None else buffer.pointer)

    def set_long(self, position: int, value: int) -> None:
        self._put(position, 8, c_int64(value))

    def set_int(self, position: int, value: int) -> None:
        self._put(position, 4, c_int32(value))

    def _put(self, position: int, size: int, value: Any) -> None:
        check_process("clSetKernelArg")
        status = self._set(self.pointer, position, c_size_t(size), byref(value))
        if status:
            raise Error("clSetKernelArg", status)


def address_of(array: np.ndarray) -> c_void_p:
    return c_void_p(array.ctypes.data)
