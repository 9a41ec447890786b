"""Pointwise ops, which work in any axis order, and quantization."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter, Write, writes
from fourfold.formats.onnx.write_graph.operator_list import element_of
from fourfold.formats.onnx.write_graph.written_values import GRIDS
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import Node
from fourfold.ops.bit_shift import BitShift
from fourfold.ops.cast import Cast
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.gelu import Gelu
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.ops.quantize import Quantize
from fourfold.types import DType

Pointwise = Callable[[GraphWriter, Node, Sequence[str]], str]

_SAME = {
    "absolute": "Abs",
    "add": "Add",
    "ceil": "Ceil",
    "cos": "Cos",
    "div": "Div",
    "exact_div": "Div",
    "elu": "Elu",
    "equal": "Equal",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "hard_swish": "HardSwish",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "log": "Log",
    "logical_and": "And",
    "logical_not": "Not",
    "logical_or": "Or",
    "logistic": "Sigmoid",
    "maximum": "Max",
    "minimum": "Min",
    "mul": "Mul",
    "negate": "Neg",
    "power": "Pow",
    "relu": "Relu",
    "round": "Round",
    "select": "Where",
    "sign": "Sign",
    "sin": "Sin",
    "sqrt": "Sqrt",
    "sub": "Sub",
    "tanh": "Tanh",
}
_CLIPPED = {"relu6": (0.0, 6.0), "relu_0_to_1": (0.0, 1.0), "relu_n1_to_1": (-1.0, 1.0)}
_BITS = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}


def pointwise(rule: Pointwise) -> Write:
    """Wrap a rule so that it gets all inputs, and writes its result, in one axis order."""

    @wraps(rule)
    def write(writer: GraphWriter, node: Node) -> None:
        order = writer.best_order(node.inputs, writer.type(node.outputs[0]).rank)
        tensors = [writer.read_broadcast(name, order) for name in node.inputs]
        writer.give(node.outputs[0], rule(writer, node, tensors), order)

    return write


@writes(*_SAME)
@pointwise
def same(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """the ONNX operator of the same meaning"""
    return writer.add(_SAME[node.op], *inputs)


@writes(*_CLIPPED)
@pointwise
def clipped(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Clip"""
    low, high = (writer.number(limit) for limit in _CLIPPED[node.op])
    return writer.add("Clip", *inputs, low, high)


@writes(*_BITS)
@pointwise
def bits(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """And, Or, Xor of booleans or of the bits of integers"""
    prefix = "" if writer.type(node.inputs[0]).dtype is DType.BOOL else "Bitwise"
    return writer.add(f"{prefix}{_BITS[node.op]}", *inputs)


@writes("bit_shift")
@pointwise
def bit_shift(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """BitShift of unsigned integers"""
    assert isinstance(node.attributes, BitShift)
    if not writer.type(node.inputs[0]).dtype.value.startswith("u"):
        raise Unconvertible("ONNX can only shift unsigned integers")
    return writer.add("BitShift", *inputs, direction="LEFT" if node.attributes.left else "RIGHT")


@writes("cast")
@pointwise
def cast(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Cast"""
    assert isinstance(node.attributes, Cast)
    return writer.add("Cast", *inputs, to=element_of(node.attributes.to))


@writes("gelu")
@pointwise
def gelu(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Gelu"""
    assert isinstance(node.attributes, Gelu)
    return writer.add(
        "Gelu", *inputs, approximate="tanh" if node.attributes.approximate else "none"
    )


@writes("leaky_relu")
@pointwise
def leaky_relu(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """LeakyRelu"""
    assert isinstance(node.attributes, LeakyRelu)
    return writer.add("LeakyRelu", *inputs, alpha=float(node.attributes.alpha))


@writes("prelu")
@pointwise
def prelu(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """PRelu, or Where if the slopes have more elements"""
    x, slope = inputs
    if writer.type(node.inputs[0]) == writer.type(node.outputs[0]):
        return writer.add("PRelu", x, slope)
    negative = writer.add("Less", x, writer.number(0.0))
    return writer.add("Where", negative, writer.add("Mul", x, slope), x)


@writes("not_equal")
@pointwise
def not_equal(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Not of Equal"""
    return writer.add("Not", writer.add("Equal", *inputs))


@writes("rsqrt")
@pointwise
def rsqrt(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Reciprocal of Sqrt"""
    return writer.add("Reciprocal", writer.add("Sqrt", *inputs))


@writes("square")
@pointwise
def square(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Mul by itself"""
    return writer.add("Mul", *inputs, *inputs)


@writes("squared_difference")
@pointwise
def squared_difference(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Sub, then Mul by itself"""
    difference = writer.add("Sub", *inputs)
    return writer.add("Mul", difference, difference)


@writes("remainder")
@pointwise
def remainder(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Mod with the sign of the dividend"""
    return writer.add("Mod", *inputs, fmod=1)


@writes("floor_mod")
@pointwise
def floor_mod(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Mod for integers; for floats, a - b * Floor(Div)"""
    if not writer.type(node.outputs[0]).dtype.is_float:
        return writer.add("Mod", *inputs)
    a, b = inputs
    times = writer.add("Floor", writer.add("Div", a, b))
    return writer.add("Sub", a, writer.add("Mul", b, times))


@writes("floor_div")
@pointwise
def floor_div(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Floor of Div; for integers, Div of the dividend minus its Mod"""
    if writer.type(node.outputs[0]).dtype.is_float:
        return writer.add("Floor", writer.add("Div", *inputs))
    a, b = inputs
    return writer.add("Div", writer.add("Sub", a, writer.add("Mod", a, b)), b)


@writes("atan2")
@pointwise
def atan2(writer: GraphWriter, node: Node, inputs: Sequence[str]) -> str:
    """Atan of the quotient, plus or minus pi for a negative second input"""
    a, b = inputs
    zero, pi = writer.number(0.0), writer.number(math.pi)
    sided = writer.add("Where", writer.add("Less", a, zero), writer.add("Neg", pi), pi)
    turned = writer.add("Where", writer.add("Less", b, zero), sided, zero)
    angle = writer.add("Add", writer.add("Atan", writer.add("Div", a, b)), turned)
    is_origin = writer.add("And", writer.add("Equal", a, zero), writer.add("Equal", b, zero))
    return writer.add("Where", is_origin, zero, angle)


@writes("identity")
def identity(writer: GraphWriter, node: Node) -> None:
    """nothing, or Identity at an output"""
    rank = writer.type(node.outputs[0]).rank
    writer.rename(node.outputs[0], str(node.inputs[0]), tuple(range(rank)))


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
        return writer.add(
            "QuantizeLinear",
            *inputs,
            writer.number(attributes.scale),
            writer.number(point, attributes.to),
        )
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
        return writer.add(
            "DequantizeLinear",
            *inputs,
            writer.number(attributes.scale),
            writer.number(attributes.zero_point, dtype),
        )
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
