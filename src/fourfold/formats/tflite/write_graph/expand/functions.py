"""Expansions of elementwise functions and their reductions."""

from __future__ import annotations

import numpy as np

from fourfold.formats.tflite.write_graph.expand import Expansion, expands
from fourfold.ops.base.rules import Reduce, stretched
from fourfold.ops.gather import Gather
from fourfold.ops.picture import Picture
from fourfold.types import DType

# Abramowitz and Stegun, 7.1.26; maximum error 1.5e-7.
_ERF_SLOPE = 0.3275911
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_MODULO = frozenset({DType.F32, DType.I32, DType.I64})
_NARROW = frozenset({DType.I8, DType.I16, DType.U8, DType.U16})


@expands("erf")
def erf(to: Expansion) -> bool:
    """sign(x) * (1 - t * polynomial(t) * e**-x**2), with t = 1 / (1 + p * |x|)."""
    x = to.input(0)
    size, one = to.add("absolute", x), to.number(1, x)
    slope = to.add("mul", size, to.number(_ERF_SLOPE, x))
    t = to.add("div", one, to.add("add", slope, one))
    sum_ = to.number(_ERF[0], x)
    for factor in _ERF[1:]:
        sum_ = to.add("add", to.add("mul", sum_, t), to.number(factor, x))
    bell = to.add("exp", to.add("negate", to.add("square", x)))
    tail_ = to.add("mul", to.add("mul", sum_, t), bell)
    return to.give("mul", to.add("sign", x), to.add("sub", one, tail_))


@expands("remainder")
def remainder(to: Expansion) -> bool:
    """floor_mod, minus b if the signs of a and b differ."""
    a, b = to.input(0), to.input(1)
    dtype = to.type(a).dtype
    if dtype in _NARROW:
        wide = to.add("remainder", to.cast(a, DType.I32), to.cast(b, DType.I32))
        return to.give_cast(wide, dtype)
    if dtype not in _MODULO:
        return False
    modulo, zero = to.add("floor_mod", a, b), to.number(0, a)
    signs = to.add("not_equal", to.add("less", a, zero), to.add("less", b, zero))
    turned = to.add("logical_and", signs, to.add("not_equal", modulo, zero))
    return to.give("select", turned, to.add("sub", modulo, b), modulo)


@expands("square")
def square(to: Expansion) -> bool:
    """mul, for integers."""
    x = to.input(0)
    return to.type(x).dtype is not DType.F32 and to.give("mul", x, x)


@expands("atan2", "prelu")
def stretch(to: Expansion) -> bool:
    """the op itself, with operands broadcast as its kernel requires."""
    op, a, b = to.node.op, to.input(0), to.input(1)
    shape = stretched(op, to.type(a).shape, to.type(b).shape)
    same = op == "prelu" or to.type(b).shape == shape
    if to.type(a).shape == shape and same:
        return False
    return to.give(op, to.broadcast(a, shape), b if op == "prelu" else to.broadcast(b, shape))


@expands("variance")
def variance(to: Expansion) -> bool:
    """squared_difference, then mean."""
    squares = to.add("squared_difference", to.input(0), to.input(1))
    return to.give("mean", squares, attributes=to.attributes(Reduce))


@expands("picture")
def picture(to: Expansion) -> bool:
    """gather of the channels, cast, and scaling."""
    channels, x = to.attributes(Picture).channels, to.input(0)
    bytes_, zeros, scales = (np.array(one) for one in zip(*channels, strict=True))
    indices = to.constant(bytes_.astype(np.int32), "channels")
    taken = to.add("gather", x, indices, attributes=Gather(to.type(x).rank - 1))
    zero = to.constant(zeros.astype(np.float32), "zeros")
    moved = to.add("sub", to.cast(taken, DType.F32), zero)
    return to.give("mul", moved, to.constant(scales.astype(np.float32), "scales"))


# LiteRT would take narrow integers for quantized values, so these ops run in i32.
_NARROW_INTEGERS = frozenset({DType.I8, DType.I16, DType.U8, DType.U16})
_ARITHMETIC = (
    "absolute",
    "add",
    "cumsum",
    "div",
    "floor_div",
    "floor_mod",
    "mul",
    "negate",
    "sign",
)
_MORE_ARITHMETIC = ("squared_difference", "sub", "sum")
_COMPARING = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")


@expands(*_ARITHMETIC, *_MORE_ARITHMETIC, *_COMPARING)
def narrow(to: Expansion) -> bool:
    """the op itself in i32, cast back to the narrow type."""
    dtype = to.type(to.input(0)).dtype
    if dtype not in _NARROW_INTEGERS:
        return False
    wide = [to.cast(to.input(index), DType.I32) for index in range(len(to.node.inputs))]
    if to.node.op in _COMPARING:
        return to.give(to.node.op, *wide, attributes=to.node.attributes)
    result = to.add(to.node.op, *wide, attributes=to.node.attributes)
    return to.give_cast(result, dtype)
