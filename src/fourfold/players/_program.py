"""OpenCL programs: built from text, loaded from a binary, and their binaries fetched."""

from __future__ import annotations

import ctypes
import sys
import warnings
from typing import Any

import pyopencl as cl

from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Program

_BINARY_SIZES, _BINARIES = 0x1165, 0x1166  # CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARIES
_COMPILES_AGAIN = ("portable computing language",)  # platforms that give binaries only after work


def build_text(context: Any, program: Program) -> Any:
    """The program, by the device's compiler."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compilers chat in the build log
            # pyopencl's own cache asks for binaries, for which PoCL compiles everything twice.
            return cl.Program(context, program.text).build(program.options, cache_dir=False)
    except cl.RuntimeError as error:
        device = context.devices[0].name.strip()
        what = f"the kernels do not build on {device}"
        raise BuildError(what, str(error), program.text) from error


def load_binary(context: Any, binary: bytes, options: str) -> Any | None:
    """The program, without the compiler; None where the driver does not take the binary."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = cl.Program(context, context.devices, [binary])
            return program.build(options, cache_dir=False)
    except (cl.Error, ValueError):
        return None


def binaries_cost_nothing(platform: str) -> bool:
    """Whether the driver has the binary at hand after a build.

    PoCL compiles every kernel once more for it, for seconds, and keeps a cache of its own.
    """
    return platform.lower() not in _COMPILES_AGAIN


def fetch_binary(program: Any) -> bytes:
    """The program's binary. Other threads go on meanwhile, unlike with pyopencl's own call."""
    handle = ctypes.c_void_p(program.int_ptr)
    ask = _library().clGetProgramInfo
    ask.argtypes = (
        ctypes.c_void_p,
        ctypes.c_uint,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    size = ctypes.c_size_t()
    status = ask(handle, _BINARY_SIZES, ctypes.sizeof(size), ctypes.byref(size), None)
    if status == 0 and size.value:
        data = ctypes.create_string_buffer(size.value)
        pointer = ctypes.c_void_p(ctypes.addressof(data))
        status = ask(handle, _BINARIES, ctypes.sizeof(pointer), ctypes.byref(pointer), None)
        if status == 0:
            return data.raw
    raise DeviceError(
        "the driver gives no binary", f"clGetProgramInfo says {status}", "run without binaries"
    )


def _library() -> Any:
    """The OpenCL loader that pyopencl is linked with."""
    name = "OpenCL" if sys.platform == "win32" else cl._cl.__file__
    return ctypes.CDLL(name)
