"""Pointwise operators."""

from __future__ import annotations

from fourfold.formats.activations import give_elu, give_mish, softplus_parts
from fourfold.formats.axes import axis_of
from fourfold.formats.paddle.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import NONE
from fourfold.ops.cast import Cast
from fourfold.ops.gelu import Gelu
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.ops.reshape import Reshape

_PLAIN = {
    "abs": "absolute",
    "ceil": "ceil",
    "cos": "cos",
    "exp": "exp",
    "floor": "floor",
    "log": "log",
    "logical_not": "logical_not",
    "relu": "relu",
    "rsqrt": "rsqrt",
    "sigmoid": "logistic",
    "sign": "sign",
    "sin": "sin",
    "sqrt": "sqrt",
    "square": "square",
    "tanh": "tanh",
}
_BINARY = {
    "elementwise_add": "add",
    "elementwise_sub": "sub",
    "elementwise_mul": "mul",
    "elementwise_div": "div",
    "elementwise_max": "maximum",
    "elementwise_min": "minimum",
    "elementwise_pow": "power",
    "elementwise_mod": "floor_mod",
    "elementwise_floordiv": "floor_div",
    "equal": "equal",
    "not_equal": "not_equal",
    "less_than": "less",
    "less_equal": "less_equal",
    "greater_than": "greater",
    "greater_equal": "greater_equal",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
}


@converts(*_PLAIN)
def plain(op: Operation) -> None:
    """the op of the same meaning."""
    op.give(_PLAIN[op.record.type], op.input("X"))


@converts("round")
def round_away(op: Operation) -> None:
    """round half away from zero."""
    x = op.input("X")
    size = op.add("absolute", x, part="size")
    raised = op.add("add", size, op.scalar(0.5, x, "half"), part="raised")
    op.give("mul", op.add("sign", x, part="sign"), op.add("floor", raised, part="whole"))


@converts("assign", "share_data")
def identity(op: Operation) -> None:
    """identity."""
    op.give("identity", op.input("X"))


@converts("dropout")
def dropout(op: Operation) -> None:
    """identity; in its older mode, mul by the keep probability."""
    x, mode = op.input("X"), op.text("dropout_implementation", "downgrade_in_infer")
    if mode == "downgrade_in_infer":
        keep_probability = 1.0 - op.factor("dropout_prob", "Probability", 0.5)
        op.give("mul", x, op.scalar(keep_probability, x, "kept"))
    else:
        op.give("identity", x)


@converts(*_BINARY)
def binary(op: Operation) -> None:
    """the op of the same meaning; the second value may broadcast from an axis of the first on."""
    x, y = op.input("X"), op.input("Y")
    axis = op.integer("axis", -1)
    rank, other = op.type_of(x).rank, op.type_of(y).rank
    if axis != -1 and other < rank:
        after = rank - axis_of(axis, rank) - other
        if after < 0:
            raise ValueError(f"{op.type_of(y)} does not fit {op.type_of(x)} from axis {axis} on")
        if after:
            wide = Reshape((*op.type_of(y).shape, *[1] * after))
            y = op.add("reshape", y, attributes=wide, part="wide")
    op.give(_BINARY[op.record.type], x, y)


def clamp(op: Operation, x: str, low: float, high: float, part: str) -> str:
    above = op.add("maximum", x, op.scalar(low, x, "low"), part=f"{part}_above")
    return op.add("minimum", above, op.scalar(high, x, "high"), part=part)


def hard_sigmoid(op: Operation, x: str, slope: float, offset: float) -> str:
    """Return x * slope + offset, clamped to 0..1."""
    scaled = op.add("mul", x, op.scalar(slope, x, "slope"), part="scaled")
    moved = op.add("add", scaled, op.scalar(offset, x, "offset"), part="moved")
    return clamp(op, moved, 0.0, 1.0, "gate")


def swish(op: Operation, x: str, beta: float) -> str:
    inner = x if beta == 1.0 else op.add("mul", x, op.scalar(beta, x, "beta"), part="inner")
    return op.add("mul", x, op.add("logistic", inner, part="gate"), part="swish")


_SIMPLE = {
    "relu": "relu",
    "relu6": "relu6",
    "sigmoid": "logistic",
    "tanh": "tanh",
    "identity": "identity",
}


def add_activation(op: Operation, x: str, name: str) -> str:
    """Add the activation of a fused operator by its name."""
    if name in _SIMPLE:
        return op.add(_SIMPLE[name], x, part="activation")
    if name in ("swish", "silu"):
        return swish(op, x, 1.0)
    if name == "hard_swish":
        return op.add("hard_swish", x, part="activation")
    if name == "leaky_relu":
        slope = LeakyRelu(op.number("fuse_alpha", 0.02))
        return op.add("leaky_relu", x, attributes=slope, part="activation")
    raise Unconvertible(f"the activation {name} is not supported")


@converts("relu6")
def relu6(op: Operation) -> None:
    """relu6, or minimum for another limit."""
    x, limit = op.input("X"), op.number("threshold", 6.0)
    if limit == 6.0:
        op.give("relu6", x)
    else:
        op.give("minimum", op.add("relu", x, part="above"), op.scalar(limit, x, "limit"))


@converts("hard_swish")
def hard_swish(op: Operation) -> None:
    """hard_swish, or its parts for other parameters."""
    x = op.input("X")
    numbers = [op.number(*one) for one in (("threshold", 6.0), ("scale", 6.0), ("offset", 3.0))]
    if numbers == [6.0, 6.0, 3.0]:
        op.give("hard_swish", x)
        return
    threshold, scale, offset = numbers
    if scale == 0:
        raise ValueError("its scale is zero")
    moved = op.add("add", x, op.scalar(offset, x, "offset"), part="moved")
    gate = clamp(op, moved, 0.0, threshold, "gate")
    op.give("div", op.add("mul", x, gate, part="gated"), op.scalar(scale, x, "scale"))


@converts("hard_sigmoid")
def hard_sigmoid_rule(op: Operation) -> None:
    """mul, add, maximum and minimum."""
    x = op.input("X")
    gate = hard_sigmoid(op, x, op.number("slope", 0.2), op.number("offset", 0.5))
    op.give("identity", gate)


@converts("swish", "silu")
def swish_rule(op: Operation) -> None:
    """mul by logistic."""
    op.give("identity", swish(op, op.input("X"), op.number("beta", 1.0)))


@converts("mish")
def mish(op: Operation) -> None:
    """x * tanh(log(1 + e**x))."""
    give_mish(op, op.input("X"))


@converts("softplus")
def softplus(op: Operation) -> None:
    """log(1 + e**x), computed without overflow."""
    if op.number("beta", 1.0) != 1.0:
        raise Unconvertible("only a beta of 1 is supported")
    op.give("add", *softplus_parts(op, op.input("X")))


@converts("softsign")
def softsign(op: Operation) -> None:
    """x / (1 + |x|)."""
    x = op.input("X")
    size = op.add("absolute", x, part="size")
    op.give("div", x, op.add("add", size, op.scalar(1.0, x, "one"), part="divisor"))


@converts("leaky_relu")
def leaky_relu(op: Operation) -> None:
    """leaky_relu."""
    op.give("leaky_relu", op.input("X"), attributes=LeakyRelu(op.number("alpha", 0.02)))


@converts("elu")
def elu(op: Operation) -> None:
    """elu; other alphas scale its negative part."""
    give_elu(op, op.input("X"), op.number("alpha", 1.0))


@converts("gelu")
def gelu(op: Operation) -> None:
    """gelu."""
    op.give("gelu", op.input("X"), attributes=Gelu(op.flag("approximate")))


@converts("prelu")
def prelu(op: Operation) -> None:
    """prelu with one slope for all, per channel or per element."""
    x, slope, mode = op.input("X"), op.input("Alpha"), op.text("mode", "all")
    rank, count = op.type_of(x).rank, op.type_of(slope).elements
    if mode == "channel" and rank > 1 and op.text("data_format", "NCHW") != "NHWC":
        wide = Reshape((count, *[1] * (rank - 2)))
        slope = op.add("reshape", slope, attributes=wide, part="slopes")
    op.give("prelu", x, slope)


@converts("reciprocal")
def reciprocal(op: Operation) -> None:
    """1 / x."""
    x = op.input("X")
    op.give("div", op.scalar(1.0, x, "one"), x)


@converts("pow")
def power(op: Operation) -> None:
    """power, square or sqrt."""
    x, factor = op.input("X"), op.factor("factor", "FactorTensor", 1.0)
    if factor in (2.0, 0.5):
        op.give("square" if factor == 2.0 else "sqrt", x)
    else:
        op.give("power", x, op.scalar(factor, x, "exponent"))


@converts("scale")
def scale(op: Operation) -> None:
    """mul and add, in the order of the attribute."""
    x = op.input("X")
    factor, bias = op.factor("scale", "ScaleTensor", 1.0), op.number("bias", 0.0)
    bias = bias if op.flag("bias_after_scale", True) else bias * factor
    kind = op.type_of(x).dtype
    if not kind.is_float and (factor != int(factor) or bias != int(bias)):
        raise Unconvertible(
            f"{kind.value} values cannot be scaled by {factor} and shifted by {bias}"
        )
    if factor != 1.0:
        x = op.add("mul", x, op.scalar(factor, x, "factor"), part="scaled")
    op.give("add" if bias else "identity", x, *([op.scalar(bias, x, "bias")] if bias else []))


@converts("clip")
def clip(op: Operation) -> None:
    """maximum and minimum."""
    x = op.input("X")
    low, high = op.factor("min", "Min", 0.0), op.factor("max", "Max", 0.0)
    op.give("identity", clamp(op, x, low, high, "clipped"))


@converts("brelu", "hard_tanh")
def bounded_relu(op: Operation) -> None:
    """maximum and minimum."""
    low, high = op.number("t_min", 0.0), op.number("t_max", 24.0)
    op.give("identity", clamp(op, op.input("X"), low, high, "clipped"))


@converts("logsigmoid")
def log_sigmoid(op: Operation) -> None:
    """-log(1 + e**-x), computed without overflow."""
    away = op.add("negate", op.input("X"), part="turned")
    op.give("negate", op.add("add", *softplus_parts(op, away), part="soft"))


@converts("cast")
def cast(op: Operation) -> None:
    """cast."""
    target = op.dtype("out_dtype")
    if target is None:
        raise Unconvertible("its element type is not supported")
    same = op.input_type("X").dtype is target
    op.give(
        "identity" if same else "cast", op.input("X"), attributes=NONE if same else Cast(target)
    )


@converts("where")
def where(op: Operation) -> None:
    """select."""
    op.give("select", op.input("Condition"), op.input("X"), op.input("Y"))


@converts("sum")
def add_all(op: Operation) -> None:
    """a chain of adds."""
    first, *others = op.all("X")
    if not others:
        op.give("identity", first)
        return
    for other in others[:-1]:
        first = op.add("add", first, other, part="part")
    op.give("add", first, others[-1])


@converts("isnan_v2")
def is_nan(op: Operation) -> None:
    """not_equal to itself."""
    op.give("not_equal", op.input("X"), op.input("X"))
