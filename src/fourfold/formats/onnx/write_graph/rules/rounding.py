"""Ops that quantize and dequantize."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter
from fourfold.formats.onnx.write_graph.rule import writes
from fourfold.formats.onnx.write_graph.rules.pointwise import pointwise
from fourfold.formats.onnx.write_graph.stored_values import GRIDS
from fourfold.formats.onnx.write_graph.tensor import element_of
from fourfold.graph import Node
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType


@writes("fake_quantize")
@pointwise
def fake_quantize(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Mul, Round, Clip, Mul

    QuantizeLinear and DequantizeLinear would be equivalent, but ONNX Runtime would then also
    quantize the weights between two of them.
    """
    assert isinstance(node.attributes, FakeQuantize)
    steps = _steps(writer, inputs[0], node.attributes)
    return _times(writer, steps, node.attributes.distance)


@writes("quantize")
@pointwise
def quantize(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """QuantizeLinear, or Round, Clip and Cast for a part of the integer range"""
    attributes = node.attributes
    assert isinstance(attributes, Quantize)
    limits = np.iinfo(attributes.to.numpy)
    point = attributes.zero_point
    is_full_range = (attributes.low + point, attributes.high + point) == (limits.min, limits.max)
    if is_full_range and attributes.pivot is None and attributes.to in GRIDS:
        grid = writer.number(attributes.scale), writer.number(point, attributes.to)
        return writer.add("QuantizeLinear", *inputs, *grid)
    moved = writer.add("Add", _steps(writer, inputs[0], attributes), writer.number(point))
    return writer.add("Cast", moved, to=element_of(attributes.to))


@writes("dequantize")
@pointwise
def dequantize(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """DequantizeLinear, or Sub and Mul for other integer types"""
    attributes = node.attributes
    assert isinstance(attributes, Dequantize)
    dtype = writer.type(node.inputs[0]).dtype
    if dtype in GRIDS:
        grid = writer.number(attributes.scale), writer.number(attributes.zero_point, dtype)
        return writer.add("DequantizeLinear", *inputs, *grid)
    real = inputs[0]
    if dtype is not DType.F32:
        real = writer.add("Cast", real, to=element_of(DType.F32))
    distance = writer.add("Sub", real, writer.number(attributes.zero_point))
    return writer.add("Mul", distance, writer.number(attributes.scale))


def _steps(writer: GraphWriter, x: str, attributes: FakeQuantize | Quantize) -> str:
    """Return the number of quantization steps of each value from zero, as floats."""
    steps = _times(writer, x, attributes.inverse)
    if attributes.pivot is None:
        rounded = writer.add("Round", steps)
    else:
        rounded = _rounded_away(writer, steps, writer.number(attributes.pivot))
    return writer.add(
        "Clip", rounded, writer.number(attributes.low), writer.number(attributes.high)
    )


def _times(writer: GraphWriter, x: str, factor: float) -> str:
    """Multiply by a factor; nothing to do for 1, which rewritten graphs often have."""
    return x if factor == 1.0 else writer.add("Mul", x, writer.number(factor))


def _rounded_away(writer: GraphWriter, steps: str, pivot: str) -> str:
    """Round to the nearest integer; ties are rounded away from a pivot."""
    away = writer.add("Sub", steps, pivot)
    size = writer.add("Add", writer.add("Abs", away), writer.number(0.5))
    rounded = writer.add("Mul", writer.add("Sign", away), writer.add("Floor", size))
    return writer.add("Add", rounded, pivot)
