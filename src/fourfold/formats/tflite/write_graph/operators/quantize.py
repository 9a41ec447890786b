"""Quantize and dequantize ops."""

from __future__ import annotations

from math import isclose

import numpy as np

from fourfold.formats.tflite.schema import TYPES
from fourfold.formats.tflite.write_graph.draft import Tensor
from fourfold.formats.tflite.write_graph.node_writer import NodeWriter, writes
from fourfold.formats.writable import StoredAs
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType, Quantization


@writes("dequantize")
def dequantize(to: NodeWriter) -> None:
    """Nothing if the value is stored with this quantization; else CAST, SUB and MUL."""
    a, x = to.attributes(Dequantize), to.input(0)
    grid = Quantization((a.scale,), (a.zero_point,))
    if x.quantization == grid:
        to.give_tensor(x)
        return
    codes = {"in_data_type": TYPES.index(x.dtype), "out_data_type": TYPES.index(DType.F32)}
    real = to.step("CAST", [x], x.shape, DType.F32, **codes)
    moved = to.step("SUB", [real, to.number(a.zero_point, real, "zero")], x.shape)
    to.give("MUL", [moved, to.number(a.scale, real, "scale")])


@writes("quantize")
def quantize(to: NodeWriter) -> None:
    """QUANTIZE, after a clamp if the range is only part of the type's."""
    a = to.attributes(Quantize)
    if a.to not in (DType.I8, DType.U8, DType.I16):
        raise to.refuse(f"TFLite cannot quantize to {a.to.value}")
    form = StoredAs(a.to, Quantization((a.scale,), (a.zero_point,)))
    limits = np.iinfo(a.to.numpy)
    full_range = (limits.min - a.zero_point, limits.max - a.zero_point)
    if (a.low, a.high) == full_range:
        to.give_tensor(to.values.stored_as(to.name(0), form))
        return
    to.give_tensor(_rounded(to, _clamped(to, a), form))


@writes("fake_quantize")
def fake_quantize(to: NodeWriter) -> None:
    """QUANTIZE to a type that holds the range, and DEQUANTIZE if real numbers are read."""
    a = to.attributes(FakeQuantize)
    requested = to.values.form(to.node.outputs[0])
    if requested is not None and to.values.form(to.name(0)) is not None:
        to.give_tensor(to.values.stored_as(to.name(0), requested))
        return
    form = _form(a)
    if form is None:
        raise to.refuse(f"TFLite has no type for a range of {a.high - a.low + 1} steps")
    exact = isclose(a.distance, a.scale, rel_tol=1e-6)
    assert form.quantization is not None
    limits = np.iinfo(form.dtype.numpy)
    if limits.max - limits.min == a.high - a.low and exact:
        to.give_tensor(to.values.stored_as(to.name(0), form))
        return
    rounded = _rounded(to, _clamped(to, a), form)
    if exact:
        to.give_tensor(rounded)
        return
    real = to.step("DEQUANTIZE", [rounded], rounded.shape, DType.F32)
    to.give("MUL", [real, to.number(a.distance / a.scale, real, "distance")])


def _form(grid: FakeQuantize) -> StoredAs | None:
    """Return a type wide enough for the range; its lowest integer is the first of the range."""
    for dtype in (DType.I8, DType.I16):
        limits = np.iinfo(dtype.numpy)
        if grid.high - grid.low <= limits.max - limits.min:
            is_centered = (
                dtype is DType.I16 and -limits.max - 1 <= grid.low <= grid.high <= limits.max
            )
            zero = 0 if is_centered else int(limits.min) - grid.low
            if limits.min <= zero <= limits.max:
                return StoredAs(dtype, Quantization((grid.scale,), (zero,)))
    return None


def _clamped(to: NodeWriter, grid: FakeQuantize | Quantize) -> Tensor:
    x = to.input(0)
    minimum, maximum = (to.number(one * grid.scale, x, "limit") for one in (grid.low, grid.high))
    return to.step("MAXIMUM", [to.step("MINIMUM", [x, maximum], x.shape), minimum], x.shape)


def _rounded(to: NodeWriter, x: Tensor, form: StoredAs) -> Tensor:
    quantized = to.temporary("QUANTIZE", x.type.with_dtype(form.dtype), form.quantization)
    to.draft.operator("QUANTIZE", [x], [quantized])
    return quantized
