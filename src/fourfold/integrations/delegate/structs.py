"""TFLite's C structures as far as a delegate needs them, and its integer arrays.

TFLite appends fields to these structures and never moves them, so a prefix is enough. There are two
exceptions. Tensors lie in an array, so their size matters, which `match` checks first. A
registration is passed by value, so the longest version is declared.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from functools import cache
from typing import Any

from fourfold.types import DType

OK, ERROR = 0, 1
ALLOW_DYNAMIC_TENSORS = 1  # delegate flag: kernels are prepared again when shapes change
READ_ONLY, DYNAMIC = 1, 4  # allocation types: in the model file, or allocated at run time
TENSOR_BYTES = 112  # with 8-byte pointers

TYPES = {
    1: DType.F32,
    2: DType.I32,
    3: DType.U8,
    4: DType.I64,
    5: DType.STRING,
    6: DType.BOOL,
    7: DType.I16,
    8: DType.C64,
    9: DType.I8,
    10: DType.F16,
    11: DType.F64,
    12: DType.C128,
    13: DType.U64,
    14: DType.RESOURCE,
    15: DType.VARIANT,
    16: DType.U32,
    17: DType.U16,
    18: DType.I4,
}


class TfLiteQuantization(ctypes.Structure):
    _fields_ = (("type", c_int), ("params", c_void_p))


class TfLiteQuantizationParams(ctypes.Structure):
    _fields_ = (("scale", c_float), ("zero_point", c_int32))


class TfLiteTensor(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("data", c_void_p),
        ("dims", c_void_p),
        ("params", TfLiteQuantizationParams),
        ("allocation_type", c_int),
        ("bytes", c_size_t),
        ("allocation", c_void_p),
        ("name", c_char_p),
        ("delegate", c_void_p),
        ("buffer_handle", c_int),
        ("data_is_stale", c_bool),
        ("is_variable", c_bool),
        ("quantization", TfLiteQuantization),
        ("sparsity", c_void_p),
        ("dims_signature", c_void_p),
    )


class TfLiteNode(ctypes.Structure):
    """The fields up to the kernel's user data."""

    _fields_ = (
        ("inputs", c_void_p),
        ("outputs", c_void_p),
        ("intermediates", c_void_p),
        ("temporaries", c_void_p),
        ("user_data", c_void_p),
    )


Init = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)
Free = CFUNCTYPE(None, c_void_p, c_void_p)
OnNode = CFUNCTYPE(c_int, c_void_p, c_void_p)


class TfLiteRegistration(ctypes.Structure):
    """The longest version so far. An older runtime reads only a prefix of it."""

    _fields_ = (
        ("init", Init),
        ("free", Free),
        ("prepare", OnNode),
        ("invoke", OnNode),
        ("profiling_string", c_void_p),
        ("builtin_code", c_int32),
        ("custom_name", c_char_p),
        ("version", c_int),
        ("registration_external", c_void_p),
        ("async_kernel", c_void_p),
        ("inplace_operator", c_uint64),
        ("reserved", c_uint64 * 4),
    )


class TfLiteDelegateParams(ctypes.Structure):
    """The nodes of a partition, and the tensors at its border."""

    _fields_ = (
        ("delegate", c_void_p),
        ("nodes_to_replace", c_void_p),
        ("input_tensors", c_void_p),
        ("output_tensors", c_void_p),
    )


class TfLiteContext(ctypes.Structure):
    """The fields up to the last function that is called here."""

    _fields_ = (
        ("tensors_size", c_size_t),
        ("GetExecutionPlan", CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))),
        ("tensors", c_void_p),
        ("impl", c_void_p),
        ("ResizeTensor", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)),
        ("ReportError", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("AddTensors", c_void_p),
        (
            "GetNodeAndRegistration",
            CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_void_p), POINTER(c_void_p)),
        ),
        (
            "ReplaceNodeSubsetsWithDelegateKernels",
            CFUNCTYPE(c_int, c_void_p, TfLiteRegistration, c_void_p, c_void_p),
        ),
        ("recommended_num_threads", c_int),
        ("GetExternalContext", c_void_p),
        ("SetExternalContext", c_void_p),
        ("allow_fp32_relax_to_fp16", c_bool),
        ("profiler", c_void_p),
        ("AllocatePersistentBuffer", c_void_p),
        ("AllocateBufferForEval", c_void_p),
        ("RequestScratchBufferInArena", c_void_p),
        ("GetScratchBuffer", c_void_p),
        ("ResizeTensorExplicit", c_void_p),
        (
            "PreviewDelegatePartitioning",
            CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_int)),
        ),
    )


class TfLiteDelegate(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("Prepare", OnNode),
        ("CopyFromBufferHandle", c_void_p),
        ("CopyToBufferHandle", c_void_p),
        ("FreeBufferHandle", c_void_p),
        ("flags", c_int64),
        ("opaque_delegate_builder", c_void_p),
        ("reserved", c_void_p * 8),
    )


def read_numbers(address: int | None) -> tuple[int, ...]:
    """Return the numbers of a TfLiteIntArray."""
    if not address:
        return ()
    count = c_int32.from_address(address).value
    return tuple((c_int32 * count).from_address(address + ctypes.sizeof(c_int32)))


def write_numbers(numbers: Iterable[int]) -> Any:
    """Return a TfLiteIntArray that lives as long as the returned object."""
    values = list(numbers)
    return (c_int32 * (len(values) + 1))(len(values), *values)


def allocate_numbers(numbers: Iterable[int]) -> int:
    """Return a TfLiteIntArray that the receiver frees with the C library's allocator."""
    array = write_numbers(numbers)
    allocate = _c_library().malloc
    allocate.restype, allocate.argtypes = c_void_p, (c_size_t,)
    address = allocate(ctypes.sizeof(array))
    if not address:
        raise MemoryError(f"cannot allocate {ctypes.sizeof(array)} bytes")
    ctypes.memmove(address, array, ctypes.sizeof(array))
    return int(address)


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
