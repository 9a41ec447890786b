"""Import OpenCL memory of other packages."""

from __future__ import annotations

from typing import Any

import numpy as np

from fourfold.backends.dlpack import device_tensor
from fourfold.backends.dlpack_devices import OPENCL, device_kind
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.device_memory import OpenCLMemory
from fourfold.backends.opencl.devices import context_of
from fourfold.device import DeviceInfo
from fourfold.errors import InputError

_TYPE, _SIZE, _CONTEXT = 0x1100, 0x1102, 0x1106
_BUFFER, _IMAGE_2D = 0x10F0, 0x10F1
_TEXEL, _WIDTH, _HEIGHT = 0x1111, 0x1114, 0x1115


def import_memory(info: DeviceInfo, given: Any) -> OpenCLMemory | None:
    """Return the device memory of an object: a `pyopencl.Buffer`, `Image` or `array.Array`, a
    cl_mem as a number, or a DLPack tensor on OpenCL. None for anything else.
    """
    if isinstance(given, OpenCLMemory):
        if given.context is not context_of(info):
            raise _context_error()
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return _of_handle(info, given)
    if hasattr(given, "base_data") and hasattr(given, "strides"):
        return _of_array(info, given)
    if hasattr(given, "int_ptr"):
        memory = _of_handle(info, given.int_ptr)
        memory.owner = given
        return memory
    if device_kind(given) != OPENCL:
        return None
    tensor = device_tensor(given)
    if tensor.device != OPENCL:  # its owner reports OpenCL, but the tensor has a plain pointer
        return None
    memory = _of_handle(info, tensor.data)
    memory.start, memory.shape, memory.dtype = tensor.start, tensor.shape, tensor.dtype
    memory.size, memory.owner = memory.size - tensor.start, tensor
    memory.read_only = tensor.read_only
    return memory


def _of_handle(info: DeviceInfo, handle: int) -> OpenCLMemory:
    """Return the memory of a cl_mem."""
    try:
        buffer = cl.Buffer.held(handle)
        kind = buffer.number(_TYPE)
    except cl.Error as error:
        what, why = f"{handle:#x} is not OpenCL memory", str(error)
        raise InputError(what, why, "pass a pyopencl.Buffer, or its int_ptr") from error
    _check_context(info, buffer)
    if kind == _BUFFER:
        return OpenCLMemory(info, buffer, buffer.number(_SIZE))
    if kind != _IMAGE_2D:
        what, why = "the memory is neither a buffer nor a 2D image", f"{kind:#x}"
        raise InputError(what, f"its cl_mem_object_type is {why}", "copy it into a buffer")
    width, height = buffer.image_number(_WIDTH), buffer.image_number(_HEIGHT)
    size = width * height * buffer.image_number(_TEXEL)
    return OpenCLMemory(info, buffer, size, texels=(width, height))


def _of_array(info: DeviceInfo, given: Any) -> OpenCLMemory:
    """Return the memory of a `pyopencl.array.Array`."""
    if not given.flags.c_contiguous:
        what, why = "the array is not contiguous", f"its strides are {given.strides}"
        raise InputError(what, why, "pass array.copy()")
    memory = _of_handle(info, given.base_data.int_ptr)
    memory.start, memory.size = given.offset, memory.size - given.offset
    memory.shape, memory.dtype = tuple(given.shape), np.dtype(given.dtype)
    memory.owner = given
    return memory


def _check_context(info: DeviceInfo, buffer: cl.Buffer) -> None:
    """Check that the memory belongs to the session's context."""
    own = context_of(info).pointer
    if own is not None and buffer.number(_CONTEXT) != own.value:
        raise _context_error()


def _context_error() -> InputError:
    return InputError(
        "the memory and the session belong to different OpenCL contexts",
        "kernels cannot access memory of another context, even on the same device",
        "open the session with Session(model, device=queue), or allocate the memory in "
        "pyopencl.Context.from_int_ptr(session.context_handle)",
    )
