"""The element types that LiteRT's kernels support for values that are not quantized.

Other types are rejected when a file is opened, a few abort the process, and some kernels take 8-bit
integers for quantized values; no file is written that needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.formats.refusal import Unconvertible
from fourfold.formats.tflite.records import TensorRecord
from fourfold.types import DType

_Types = frozenset[DType]
_REAL: _Types = frozenset({DType.F32})
_WIDE: _Types = _REAL | {DType.I32, DType.I64}
_SHORT: _Types = _REAL | {DType.I32}
_COMMON: _Types = _WIDE | {DType.I8, DType.I16, DType.U8}
_MOVED: _Types = _COMMON | {DType.BOOL}
_COMPARED: _Types = _WIDE | {DType.BOOL}
_BLOCKS: _Types = _WIDE | {DType.I8, DType.U8}

SUPPORTED: Mapping[str, _Types] = {
    **dict.fromkeys(("CEIL", "CONV_2D", "CONV_3D", "COS", "DEPTHWISE_CONV_2D", "ELU"), _REAL),
    **dict.fromkeys(("AVERAGE_POOL_2D", "BATCH_MATMUL", "EXP", "FLOOR", "FULLY_CONNECTED"), _REAL),
    **dict.fromkeys(("GELU", "HARD_SWISH", "L2_NORMALIZATION", "LEAKY_RELU", "LOG"), _REAL),
    **dict.fromkeys(("LOCAL_RESPONSE_NORMALIZATION", "LOG_SOFTMAX", "LOGISTIC", "MEAN"), _REAL),
    **dict.fromkeys(("MAX_POOL_2D", "PRELU", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1"), _REAL),
    **dict.fromkeys(("RELU_N1_TO_1", "RESIZE_BILINEAR", "ROUND", "RSQRT", "SIN"), _REAL),
    **dict.fromkeys(("SOFTMAX", "SQRT", "SQUARE", "TANH", "TRANSPOSE_CONV"), _REAL),
    **dict.fromkeys(("DIV", "POW", "SIGN", "SQUARED_DIFFERENCE"), _SHORT),
    **dict.fromkeys(("CUMSUM", "SUB", "SUM"), _WIDE),
    **dict.fromkeys(("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _WIDE),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL"), _COMPARED),
    **dict.fromkeys(("MAXIMUM", "MINIMUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), _COMMON),
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "SCATTER_ND"), _BLOCKS),
    **dict.fromkeys(("GATHER", "GATHER_ND", "PAD", "PADV2"), _MOVED),
    "ABS": _SHORT | {DType.I16},
    "ADD": _WIDE | {DType.I16},
    "ARG_MAX": _SHORT | {DType.I8, DType.U8},
    "BITWISE_XOR": frozenset({DType.I8, DType.I16, DType.I32, DType.U8, DType.U16, DType.U32}),
    "CAST": frozenset(DType) - {DType.U64},
    "CONCATENATION": _MOVED | {DType.U32},
    "FLOOR_DIV": _SHORT | {DType.I8, DType.I16},
    "FLOOR_MOD": _WIDE | {DType.I8, DType.I16},
    "MUL": _WIDE | {DType.I16, DType.U32},
    "NEG": _WIDE | {DType.I8, DType.I16},
    "RESIZE_NEAREST_NEIGHBOR": _SHORT | {DType.I8, DType.I16, DType.U8},
    "REVERSE_SEQUENCE": _WIDE | {DType.I16, DType.U8},
    "TOPK_V2": _COMMON,
}
# Index of the data input, if it is not the first.
_DATA_INPUTS = {"SCATTER_ND": 1, "TRANSPOSE_CONV": 2}


def check_types(op: str, inputs: Sequence[TensorRecord]) -> None:
    """Refuse an operator whose data input has a type that LiteRT does not support."""
    supported = SUPPORTED.get(op)
    if supported is None or not inputs:
        return
    tensor = inputs[_DATA_INPUTS.get(op, 0)]
    if tensor.quantization is None and tensor.dtype is not None and tensor.dtype not in supported:
        raise Unconvertible(f"LiteRT has no {op} for {tensor.dtype.value}")
