"""Pointwise layers."""

from __future__ import annotations

import math

from fourfold.formats.activations import give_elu, softplus_parts
from fourfold.formats.caffe.operation import Operation, converts
from fourfold.formats.caffe.record import Record
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.base.rules import Reduce
from fourfold.ops.cast import Cast
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.types import DType

_PLAIN = {"AbsVal": "absolute", "Sigmoid": "logistic", "TanH": "tanh", "ReLU6": "relu6"}


@converts(*_PLAIN)
def plain(op: Operation) -> None:
    """the op of the same meaning."""
    op.give(_PLAIN[op.layer.type], op.input())


@converts("ReLU")
def relu(op: Operation) -> None:
    """relu, or leaky_relu with a negative slope."""
    slope = op.settings("relu_param").number("negative_slope")
    if slope:
        op.give("leaky_relu", op.input(), attributes=LeakyRelu(slope))
    else:
        op.give("relu", op.input())


@converts("PReLU")
def prelu(op: Operation) -> None:
    """prelu with a slope per channel, or one for all."""
    shared = op.settings("prelu_param").flag("channel_shared")
    x = op.input_type()
    if x.rank < 2:
        raise ValueError(f"{x} has no channels")
    slopes = op.parameter(0, "slope", () if shared else (x.shape[1],))
    slope = op.add_constant(slopes, "slope") if shared else op.along(slopes, 1, "slope")
    op.give("prelu", op.input(), slope)


@converts("ELU")
def elu(op: Operation) -> None:
    """elu; other alphas scale its negative part."""
    give_elu(op, op.input(), op.settings("elu_param").number("alpha", 1.0))


@converts("BNLL")
def bnll(op: Operation) -> None:
    """log(1 + e**x), computed without overflow."""
    op.give("add", *softplus_parts(op, op.input()))


def _line(op: Operation, x: str, scale: float, shift: float) -> str:
    """Return x * scale + shift, without nodes that change nothing."""
    if scale != 1.0:
        x = op.add("mul", x, op.scalar(scale, x, "scale"), part="scaled")
    if shift != 0.0:
        x = op.add("add", x, op.scalar(shift, x, "shift"), part="shifted")
    return x


@converts("Power")
def power(op: Operation) -> None:
    """mul, add and power, without nodes that change nothing."""
    settings = op.settings("power_param")
    exponent = settings.number("power", 1.0)
    x = _line(op, op.input(), settings.number("scale", 1.0), settings.number("shift", 0.0))
    if exponent == 1.0:
        op.give("identity", x)
    elif exponent == 2.0:
        op.give("square", x)
    elif exponent == 0.5:
        op.give("sqrt", x)
    else:
        op.give("power", x, op.scalar(exponent, x, "exponent"))


def _base(settings: Record) -> float:
    """Return the natural logarithm of the base; 1 for -1, which stands for e."""
    base = settings.number("base", -1.0)
    if base == -1.0:
        return 1.0
    if base <= 0.0 or base == 1.0 or not math.isfinite(base):
        raise ValueError(f"its base {base} is not valid")
    return math.log(base)


@converts("Exp")
def exponential(op: Operation) -> None:
    """exp of a scaled and shifted value."""
    settings = op.settings("exp_param")
    base = _base(settings)
    scale, shift = settings.number("scale", 1.0), settings.number("shift", 0.0)
    op.give("exp", _line(op, op.input(), scale * base, shift * base))


@converts("Log")
def logarithm(op: Operation) -> None:
    """log of a scaled and shifted value, divided by the log of the base."""
    settings = op.settings("log_param")
    x = _line(op, op.input(), settings.number("scale", 1.0), settings.number("shift", 0.0))
    op.give("identity", _line(op, op.add("log", x, part="log"), 1.0 / _base(settings), 0.0))


@converts("Threshold")
def threshold(op: Operation) -> None:
    """greater, cast to zeros and ones."""
    limit = op.settings("threshold_param").number("threshold")
    above = op.add("greater", op.input(), op.scalar(limit, op.input(), "limit"), part="above")
    op.give("cast", above, attributes=Cast(DType.F32))


@converts("Eltwise")
def eltwise(op: Operation) -> None:
    """add, mul, maximum or minimum over all inputs."""
    settings = op.settings("eltwise_param")
    kind, factors = settings.text("operation", "SUM"), settings.numbers("coeff")
    names = {"SUM": "add", "PROD": "mul", "MAX": "maximum", "MIN": "minimum"}
    if kind not in names:
        raise Unconvertible(f"its operation {kind} is not supported")
    if len(op.inputs) < 2 or (factors and len(factors) != len(op.inputs)):
        raise ValueError(f"it has {len(op.inputs)} bottoms and {len(factors)} factors")
    for index in range(1, len(op.inputs)):
        if op.input_type(index).shape != op.input_type().shape:
            raise ValueError(f"{op.input_type(index)} does not have the shape of {op.input_type()}")
    terms = list(op.all_inputs())
    if kind == "SUM" and factors:
        terms = [_line(op, x, factor, 0.0) for x, factor in zip(terms, factors, strict=True)]
    result, *others = terms
    for term in others[:-1]:
        result = op.add(names[kind], result, term, part="part")
    op.give(names[kind], result, others[-1])


@converts("MVN")
def mean_variance_normalization(op: Operation) -> None:
    """subtract the mean, divide by the standard deviation, per channel or over all."""
    settings, x = op.settings("mvn_param"), op.input()
    rank = op.input_type().rank
    first = 1 if settings.flag("across_channels") else 2
    if rank <= first:
        raise ValueError(f"{op.input_type()} has no spatial axes")
    axes = Reduce(tuple(range(first, rank)), keep_dims=True)
    centred = op.add("sub", x, op.add("mean", x, attributes=axes, part="mean"), part="centred")
    if not settings.flag("normalize_variance", True):
        op.give("identity", centred)
        return
    squares = op.add("square", centred, part="squares")
    variance = op.add("mean", squares, attributes=axes, part="variance")
    deviation = op.add("sqrt", variance, part="deviation")
    little = op.scalar(settings.number("eps", 1e-9), x, "little")
    op.give("div", centred, op.add("add", deviation, little, part="divisor"))
