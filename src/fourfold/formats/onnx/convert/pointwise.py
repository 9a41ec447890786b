"""Pointwise operators: arithmetic, activations, comparisons and bits."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.activations import elu_parts, give_elu, give_mish, softplus_parts
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.bit_shift import BitShift
from fourfold.ops.cast import Cast
from fourfold.ops.gelu import Gelu
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.types import DType

_UNARY = {
    "Abs": "absolute",
    "Ceil": "ceil",
    "Cos": "cos",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "HardSwish": "hard_swish",
    "Log": "log",
    "Neg": "negate",
    "Relu": "relu",
    "Round": "round",
    "Sigmoid": "logistic",
    "Sign": "sign",
    "Sin": "sin",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
}
_BINARY = {"Add": "add", "Div": "div", "Mul": "mul", "PRelu": "prelu", "Sub": "sub"}
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}
_RANGES: dict[tuple[float | str, float | str], str] = {
    (0.0, 6.0): "relu6",
    (0.0, math.inf): "relu",
    (0.0, 1.0): "relu_0_to_1",
    (-1.0, 1.0): "relu_n1_to_1",
}


@converts(*_UNARY)
def unary(op: Operation) -> None:
    """the op of the same name on one value."""
    op.give(_UNARY[op.record.op], op.input(0))


@converts(*_BINARY)
def binary(op: Operation) -> None:
    """the op of the same name on two values."""
    op.give(_BINARY[op.record.op], op.input(0), op.input(1))


@converts(*_VARIADIC)
def variadic(op: Operation) -> None:
    """a chain of the op of the same name."""
    op.give_value(_joined(op, _VARIADIC[op.record.op]))


def _joined(op: Operation, name: str) -> str:
    first, *others = op.all_inputs()
    for index, value in enumerate(others):
        first = op.add(name, first, value, part=f"step{index}")
    return first


@converts("Mean")
def mean(op: Operation) -> None:
    """a chain of adds, then a product with the reciprocal of their number."""
    total = _joined(op, "add")
    share = op.add_constant(1 / len(op.inputs), "share", op.type_of(total).dtype)
    op.give("mul", total, share)


@converts("Pow")
def power(op: Operation) -> None:
    """square, sqrt, or power."""
    base, exponent = op.input(0), op.known(op.input(1))
    number = None if exponent is None or exponent.size != 1 else float(exponent.reshape(-1)[0])
    if number in (1.0, 2.0, 0.5) and op.input_type(1).rank <= op.input_type(0).rank:
        op.give({1.0: "identity", 2.0: "square", 0.5: "sqrt"}[number], base)
        return
    dtype = op.input_type(0).dtype
    if dtype.is_float:
        op.give("power", base, op.converted(op.input(1), dtype, "exponent"))
        return
    # Integers are exact as long as float32 represents them.
    real = [op.converted(op.input(index), DType.F32, f"real{index}") for index in (0, 1)]
    rounded = op.add("round", op.add("power", *real, part="power"), part="whole")
    op.give("cast", rounded, attributes=Cast(dtype))


@converts("Reciprocal")
def reciprocal(op: Operation) -> None:
    """one divided by x."""
    op.give("div", op.add_constant(1.0, "one", op.input_type(0).dtype), op.input(0))


@converts("Clip")
def clip(op: Operation) -> None:
    """relu, relu6 and similar, else maximum and minimum."""
    x, kind = op.input(0), op.input_type(0).dtype
    limits = _limit(op, 1, "min", -math.inf), _limit(op, 2, "max", math.inf)
    if limits in _RANGES and kind.is_float:
        op.give(_RANGES[limits], x)
        return
    for name, limit in zip(("maximum", "minimum"), limits, strict=True):
        if isinstance(limit, str) or math.isfinite(limit):
            other = limit if isinstance(limit, str) else op.add_constant(limit, "limit", kind)
            x = op.add(name, x, other, part=name)
    op.give_value(x)


def _limit(op: Operation, index: int, name: str, none: float) -> float | str:
    """Return a limit: the number of an attribute or constant, or the value that holds it."""
    if op.has(name):
        return op.real_attribute(name, none)
    value = op.optional(index)
    if value is not None and value not in op.builder.constants:
        return op.reshaped(value, (), name)
    limit = op.number(index, name)
    return none if limit is None else limit


@converts("LeakyRelu")
def leaky_relu(op: Operation) -> None:
    """leaky_relu."""
    op.give("leaky_relu", op.input(0), attributes=LeakyRelu(op.real_attribute("alpha", 0.01)))


@converts("Elu")
def elu(op: Operation) -> None:
    """elu, or its formula for an alpha other than one."""
    give_elu(op, op.input(0), op.real_attribute("alpha", 1.0))


@converts("Selu")
def selu(op: Operation) -> None:
    """relu and elu."""
    alpha = op.real_attribute("alpha", 1.67326319217681884765625)
    gamma = op.real_attribute("gamma", 1.05070102214813232421875)
    total = op.add("add", *elu_parts(op, op.input(0), alpha), part="sum")
    op.give("mul", total, op.add_constant(gamma, "gamma"))


@converts("Celu")
def celu(op: Operation) -> None:
    """relu and elu."""
    alpha = op.real_attribute("alpha", 1.0)
    op.give("add", *elu_parts(op, op.input(0), alpha, alpha))


@converts("ThresholdedRelu")
def thresholded_relu(op: Operation) -> None:
    """greater, then select."""
    alpha = op.add_constant(op.real_attribute("alpha", 1.0), "alpha")
    above = op.add("greater", op.input(0), alpha, part="above")
    op.give("select", above, op.input(0), op.add_constant(0.0, "zero"))


@converts("Shrink")
def shrink(op: Operation) -> None:
    """comparisons and select."""
    x, bias, limit = op.input(0), op.real_attribute("bias", 0.0), op.real_attribute("lambd", 0.5)
    above = op.add("greater", x, op.add_constant(limit, "high"), part="above")
    below = op.add("less", x, op.add_constant(-limit, "low"), part="below")
    less = op.add("sub", x, op.add_constant(bias, "bias"), part="less")
    more = op.add("add", x, op.add_constant(bias, "bias"), part="more")
    otherwise = op.add("select", below, more, op.add_constant(0.0, "zero"), part="rest")
    op.give("select", above, less, otherwise)


@converts("HardSigmoid")
def hard_sigmoid(op: Operation) -> None:
    """mul, add, and relu_0_to_1."""
    alpha, beta = op.real_attribute("alpha", 0.2), op.real_attribute("beta", 0.5)
    scaled = op.add("mul", op.input(0), op.add_constant(alpha, "alpha"), part="scaled")
    op.give("relu_0_to_1", op.add("add", scaled, op.add_constant(beta, "beta"), part="shifted"))


@converts("Softplus")
def softplus(op: Operation) -> None:
    """log(1 + e**x), computed without overflow."""
    op.give("add", *softplus_parts(op, op.input(0)))


@converts("Mish")
def mish(op: Operation) -> None:
    """x * tanh(softplus(x))."""
    give_mish(op, op.input(0))


@converts("Softsign")
def softsign(op: Operation) -> None:
    """x / (1 + |x|)."""
    size = op.add("absolute", op.input(0), part="size")
    op.give("div", op.input(0), op.add("add", size, op.add_constant(1.0, "one"), part="more"))


@converts("Swish", "com.microsoft.QuickGelu")
def swish(op: Operation) -> None:
    """x * logistic(alpha * x)."""
    alpha = op.real_attribute("alpha", 1.0 if op.record.op == "Swish" else 1.702)
    x = op.input(0)
    scaled = x if alpha == 1.0 else op.add("mul", x, op.add_constant(alpha, "alpha"), part="scaled")
    op.give("mul", x, op.add("logistic", scaled, part="gate"))


@converts("Gelu", "com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.BiasGelu")
def gelu(op: Operation) -> None:
    """gelu, after a bias if it has one."""
    kind = op.text_attribute("approximate", "tanh" if op.record.op == "FastGelu" else "none")
    if kind not in ("none", "tanh"):
        raise Unconvertible(f"its approximation '{kind}' is not supported")
    x = op.input(0)
    if op.record.domain and op.optional(1) is not None:
        x = op.add("add", x, op.input(1), part="biased")
    op.give("gelu", x, attributes=Gelu(kind == "tanh"))


@converts("Tan")
def tan(op: Operation) -> None:
    """sin / cos."""
    sine, cosine = (op.add(name, op.input(0), part=name) for name in ("sin", "cos"))
    op.give("div", sine, cosine)


@converts("Atan")
def atan(op: Operation) -> None:
    """atan2 with one."""
    op.give("atan2", op.input(0), op.add_constant(1.0, "one", op.input_type(0).dtype))


@converts("Asin", "Acos")
def arc(op: Operation) -> None:
    """atan2 with sqrt(1 - x**2)."""
    x, one = op.input(0), op.add_constant(1.0, "one")
    difference = op.add("sub", one, op.add("square", x, part="square"), part="rest")
    other = op.add("sqrt", difference, part="other")
    above, below = (x, other) if op.record.op == "Asin" else (other, x)
    op.give("atan2", above, below)


@converts("Sinh", "Cosh")
def hyperbolic(op: Operation) -> None:
    """half the sum or difference of two exponentials."""
    up = op.add("exp", op.input(0), part="up")
    down = op.add("exp", op.add("negate", op.input(0), part="minus"), part="down")
    both = op.add("sub" if op.record.op == "Sinh" else "add", up, down, part="both")
    op.give("mul", both, op.add_constant(0.5, "half"))


@converts("Asinh", "Acosh")
def inverse_hyperbolic(op: Operation) -> None:
    """a logarithm."""
    x, one = op.input(0), op.add_constant(1.0, "one")
    inverse = op.record.op == "Asinh"
    size = op.add("absolute", x, part="size") if inverse else x
    square = op.add("square", x, part="square")
    root = op.add("sqrt", op.add("add" if inverse else "sub", square, one, part="in"), part="root")
    log = op.add("log", op.add("add", size, root, part="sum"), part="log")
    if inverse:
        op.give("mul", log, op.add("sign", x, part="sign"))
    else:
        op.give_value(log)


@converts("Atanh")
def atanh(op: Operation) -> None:
    """half the logarithm of a quotient."""
    x, one = op.input(0), op.add_constant(1.0, "one")
    up, down = op.add("add", one, x, part="up"), op.add("sub", one, x, part="down")
    log = op.add("log", op.add("div", up, down, part="fraction"), part="log")
    op.give("mul", log, op.add_constant(0.5, "half"))


_BITWISE = {"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor"}


@converts(*_BITWISE)
def bitwise(op: Operation) -> None:
    """the op of the same name."""
    op.give(_BITWISE[op.record.op], op.input(0), op.input(1))


@converts("BitwiseNot")
def bitwise_not(op: Operation) -> None:
    """bitwise_xor with all bits."""
    dtype = op.input_type(0).dtype
    all_bits = np.asarray(np.invert(np.zeros((), dtype.numpy)))
    op.give("bitwise_xor", op.input(0), op.add_constant(all_bits, "every"))


@converts("BitShift")
def bit_shift(op: Operation) -> None:
    """bit_shift."""
    direction = op.text_attribute("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"its direction '{direction}' is neither LEFT nor RIGHT")
    op.give("bit_shift", op.input(0), op.input(1), attributes=BitShift(direction == "LEFT"))


@converts("IsNaN")
def is_nan(op: Operation) -> None:
    """not_equal to itself."""
    op.give("not_equal", op.input(0), op.input(0))


@converts("IsInf")
def is_inf(op: Operation) -> None:
    """equal to infinity, to minus infinity, or to either."""
    x, dtype = op.input(0), op.input_type(0).dtype
    positive, negative = op.attribute("detect_positive", 1), op.attribute("detect_negative", 1)
    if positive and negative:
        x = op.add("absolute", x, part="size")
    if positive or negative:
        infinity = math.inf if positive else -math.inf
        op.give("equal", x, op.add_constant(infinity, "infinity", dtype))
    else:
        op.give("less", x, op.add_constant(-math.inf, "below", dtype))


_COMPARISONS = {
    "And": "logical_and",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Or": "logical_or",
    "Xor": "not_equal",
}


@converts(*_COMPARISONS)
def compare(op: Operation) -> None:
    """the op of the same name on two values."""
    op.give(_COMPARISONS[op.record.op], op.input(0), op.input(1))


@converts("Not")
def negation(op: Operation) -> None:
    """logical_not."""
    op.give("logical_not", op.input(0))


@converts("Where")
def where(op: Operation) -> None:
    """select with broadcasting."""
    op.give("select", op.input(0), op.input(1), op.input(2))


@converts("Mod")
def mod(op: Operation) -> None:
    """floor_mod, or remainder with the sign of the dividend."""
    name = "remainder" if op.attribute("fmod", 0) else "floor_mod"
    op.give(name, op.input(0), op.input(1))
