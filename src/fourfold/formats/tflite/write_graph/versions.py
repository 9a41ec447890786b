"""Operator versions and element types that LiteRT's kernels support.

Runtimes refuse versions newer than they know, so files use the oldest version that supports the
types, ranks and options of an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.records import TensorRecord
from fourfold.types import DType

Inputs = Sequence[TensorRecord]
Version = Callable[[Inputs, object, DType], int]
_I8, _I16, _U8, _I64, _BOOL = DType.I8, DType.I16, DType.U8, DType.I64, DType.BOOL
_HALF, _I4 = DType.F16, DType.I4

# Versions that depend only on the element type of the first input; 1 for all others.
_BY_TYPE: Mapping[str, Mapping[DType | None, int]] = {
    "ABS": {DType.I32: 5, _I16: 3, _I8: 2, _U8: 2},
    "ARG_MAX": {_BOOL: 3, _I8: 2},
    "ARG_MIN": {_BOOL: 3, _I8: 2},
    "AVERAGE_POOL_2D": {_I16: 3, _I8: 2},
    "BROADCAST_TO": {_I8: 3, _I16: 3, None: 2},
    "CONCATENATION": {DType.U32: 4, _I16: 3, _I8: 2},
    "DEPTH_TO_SPACE": {_I8: 2},
    "EQUAL": {_I16: 5, _I8: 2},
    "EXP": {_I8: 2, _I16: 2},
    "FLOOR_DIV": {_I16: 3, _I8: 3, DType.F32: 2},
    "FLOOR_MOD": {_I16: 2, _I8: 2},
    "GATHER_ND": {_BOOL: 5, _I16: 3},
    "GELU": {_I8: 2, _U8: 2},
    "GREATER": {_I8: 2},
    "GREATER_EQUAL": {_I16: 3, _I8: 2},
    "L2_NORMALIZATION": {_I8: 2},
    "LEAKY_RELU": {_I16: 2},
    "LESS": {_I16: 3, _I8: 2},
    "LESS_EQUAL": {_I8: 2},
    "LOG": {_I8: 2, _I16: 2},
    "LOGISTIC": {_I16: 3, _I8: 2},
    "LOG_SOFTMAX": {_I8: 2},
    "MAX_POOL_2D": {_I16: 3, _I8: 2},
    "MEAN": {_I16: 3, _I8: 2},
    "MIRROR_PAD": {_I16: 3, _I8: 2},
    "NOT_EQUAL": {_I16: 4, _I8: 2},
    "PACK": {DType.U32: 4, _I16: 3, _I8: 2},
    "REDUCE_MAX": {_I16: 3, _I8: 2},
    "REDUCE_MIN": {_I16: 3, _I8: 2},
    "REDUCE_PROD": {_I8: 2, _I16: 2},
    "RELU": {_I16: 3, _I8: 2, _U8: 2},
    "RELU6": {_I16: 3, _I8: 2},
    "REVERSE_V2": {_I8: 3, _BOOL: 2},
    "RSQRT": {_I16: 3, _I8: 2},
    "SIGN": {DType.I32: 2},
    "SOFTMAX": {_I16: 3, _I8: 2},
    "SPACE_TO_DEPTH": {_I8: 2},
    "SQRT": {_I8: 2, _I16: 2},
    "SQUARED_DIFFERENCE": {_I8: 2},
    "SUM": {_I8: 2},
    "TANH": {_I16: 3, _I8: 2},
    "TILE": {_I8: 3},
    "TOPK_V2": {_I16: 3, _I8: 2},
}


def version_of(op: str, inputs: Inputs, options: object | None, result: DType) -> int:
    """Return the version for inputs, options, and the element type of the first output."""
    if op in _SPECIAL:
        return _SPECIAL[op](inputs, options, result)
    versions = _BY_TYPE.get(op, {})
    first = inputs[0].dtype if inputs else None
    return versions.get(first, versions.get(None, 1))


def _scales(tensor: TensorRecord) -> int:
    return len(tensor.quantization.scale) if tensor.quantization else 0


def _hybrid(inputs: Inputs) -> bool:
    return inputs[0].dtype is DType.F32 and inputs[1].dtype is _I8


def _stretches(inputs: Inputs) -> bool:
    """Return True if shapes with more than four axes are broadcast."""
    return inputs[0].shape != inputs[1].shape and max(len(one.shape) for one in inputs) > 4


def _conv_2d(inputs: Inputs, options: object, result: DType) -> int:
    x, weights = inputs[0], inputs[1]
    if x.shape[-1] != weights.shape[-1]:
        return 6
    if weights.dtype is _I4:
        return 7
    if _hybrid(inputs):
        return 5 if _scales(weights) > 1 else 2
    return {_I16: 4, _I8: 3}.get(x.dtype or result, 1)


def _depthwise_conv_2d(inputs: Inputs, options: object, result: DType) -> int:
    if inputs[1].dtype is _I4:
        return 7
    if _hybrid(inputs):
        return 6 if _scales(inputs[1]) > 1 else 4
    dilated = max(getattr(options, "dilation_h", 1), getattr(options, "dilation_w", 1)) > 1
    return {_I16: 5, _I8: 3}.get(inputs[0].dtype or result, 2 if dilated else 1)


def _fully_connected(inputs: Inputs, options: object, result: DType) -> int:
    x, weights = inputs[0], inputs[1]
    if weights.dtype is _I4:
        return 13 if x.dtype is _I16 else 10
    if _hybrid(inputs):
        if _scales(weights) > 1:
            return 12
        return 9 if getattr(options, "asymmetric_quantize_inputs", False) else 3
    if x.dtype is _I16:
        return 7
    if len(inputs) == 2:
        return 6
    if getattr(options, "keep_num_dims", False):
        return 5
    return 4 if x.dtype is _I8 else 1


def _batch_matmul(inputs: Inputs, options: object, result: DType) -> int:
    if _hybrid(inputs):
        return 4 if getattr(options, "asymmetric_quantize_inputs", False) else 1
    return {_I16: 3, _I8: 2}.get(inputs[0].dtype or result, 1)


def _transpose_conv(inputs: Inputs, options: object, result: DType) -> int:
    if getattr(options, "activation", 0):
        return 4
    if len(inputs) == 4:
        return 3
    return 2 if inputs[1].dtype is _I8 else 1


def _gather(inputs: Inputs, options: object, result: DType) -> int:
    if inputs[0].dtype is _I4:
        return 7
    if getattr(options, "batch_dims", 0):
        return 5
    return {_I16: 4, _BOOL: 3, _I8: 2}.get(inputs[0].dtype or result, 1)


def _mul(inputs: Inputs, options: object, result: DType) -> int:
    dtype, plain = inputs[0].dtype or result, not _scales(inputs[0])
    if dtype is DType.U32 or (dtype is _I16 and plain):
        return 7
    # A product of scales above one also needs version 3, which is always available with i8.
    return {DType.C64: 6, _I64: 5, _I16: 4, _I8: 3}.get(dtype, 1)


def _add(inputs: Inputs, options: object, result: DType) -> int:
    dtype = inputs[0].dtype or result
    if dtype is _I16:
        return 3 if _scales(inputs[0]) else 5
    return {_I64: 4, _I8: 2}.get(dtype, 1)


def _sub(inputs: Inputs, options: object, result: DType) -> int:
    dtype = inputs[0].dtype or result
    if dtype in (_I16, _I64):
        return 5 if dtype is _I16 else 4
    if _stretches(inputs):
        return 3
    return 2 if dtype is _I8 else 1


def _div(inputs: Inputs, options: object, result: DType) -> int:
    return 2 if _stretches(inputs) else 1


def _extreme(inputs: Inputs, options: object, result: DType) -> int:
    if inputs[0].dtype is _I16:
        return 4
    if _stretches(inputs):
        return 3
    return 2 if inputs[0].dtype is _I8 else 1


def _by_axes(newest: Mapping[DType, int], many: int, types: Mapping[DType, int]) -> Version:
    """Return a version rule: by recent element types, then by rank over four, then by others."""

    def version(inputs: Inputs, options: object, result: DType) -> int:
        dtype = inputs[0].dtype or result
        if dtype in newest:
            return newest[dtype]
        return many if len(inputs[0].shape) > 4 else types.get(dtype, 1)

    return version


def _transpose(inputs: Inputs, options: object, result: DType) -> int:
    rank, dtype = len(inputs[0].shape), inputs[0].dtype or result
    if rank > 5:
        return 8 if rank > 6 else 6
    if dtype is _I16:
        return 5
    if rank > 4:
        return 4
    return {_BOOL: 3, _I8: 2}.get(dtype, 1)


def _blocks(inputs: Inputs, options: object, result: DType) -> int:
    if inputs[0].dtype is _I16:
        return 4
    if len(inputs[0].shape) != 4:
        return 3
    return 2 if inputs[0].dtype is _I8 else 1


def _resize(inputs: Inputs, options: object, result: DType) -> int:
    if inputs[0].dtype is _I16:
        return 4
    corners = getattr(options, "align_corners", False) and not hasattr(options, "new_height")
    if corners or getattr(options, "half_pixel_centers", False):
        return 3
    return 2 if inputs[0].dtype is _I8 else 1


def _dequantize(inputs: Inputs, options: object, result: DType) -> int:
    if _scales(inputs[0]) > 1 and inputs[0].dtype is _I8:
        return 5
    return {_I4: 6, _I16: 3, _HALF: 3, _I8: 2}.get(inputs[0].dtype or result, 1)


def _quantize(inputs: Inputs, options: object, result: DType) -> int:
    return 2 if result is _I16 else 1


def _cast(inputs: Inputs, options: object, result: DType) -> int:
    both = {inputs[0].dtype, result}
    order = ((5, {DType.F64, _HALF}), (4, {DType.U16}), (3, {_I8}), (2, {DType.U32}))
    return next((version for version, dtypes in order if both & dtypes), 1)


def _select_v2(inputs: Inputs, options: object, result: DType) -> int:
    return 2 if result is DType.U32 else 1


_SPECIAL: Mapping[str, Version] = {
    "ADD": _add,
    "BATCH_MATMUL": _batch_matmul,
    "BATCH_TO_SPACE_ND": _blocks,
    "CAST": _cast,
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "DEQUANTIZE": _dequantize,
    "DIV": _div,
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _gather,
    "MAXIMUM": _extreme,
    "MINIMUM": _extreme,
    "MUL": _mul,
    "PAD": _by_axes({_BOOL: 5}, 4, {_I16: 3, _I8: 2}),
    "PADV2": _by_axes({_BOOL: 5}, 4, {_I16: 3, _I8: 2}),
    "QUANTIZE": _quantize,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "SELECT_V2": _select_v2,
    "SLICE": _by_axes({DType.U32: 6}, 5, {_I16: 4, _I8: 2}),
    "SPACE_TO_BATCH_ND": _blocks,
    "STRIDED_SLICE": _by_axes({DType.U32: 7}, 4, {_BOOL: 3, _I8: 2}),
    "SUB": _sub,
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": _transpose_conv,
}


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
    """Refuse an operator whose data input has a type that LiteRT does not support.

    LiteRT would reject such a file or even abort, and some kernels take 8-bit integers for
    quantized values.
    """
    supported = SUPPORTED.get(op)
    if supported is None or not inputs:
        return
    tensor = inputs[_DATA_INPUTS.get(op, 0)]
    if tensor.quantization is None and tensor.dtype is not None and tensor.dtype not in supported:
        raise Unconvertible(f"LiteRT has no {op} for {tensor.dtype.value}")
