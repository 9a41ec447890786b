"""Pointwise operators: arithmetic, comparisons, activations, casts, selection, quantization.

Quantized values are real numbers in the graph; only the rounding to the output's quantization
remains, which follows every operator on quantized values.
"""

from __future__ import annotations

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import (
    AddOptions,
    GeluOptions,
    LeakyReluOptions,
    MulOptions,
)
from fourfold.ops.cast import Cast
from fourfold.ops.gelu import Gelu
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.ops.reshape import Reshape
from fourfold.types import DType, dequantize

_FUSED = {"ADD": "add", "SUB": "sub", "MUL": "mul", "DIV": "div"}
_BINARY = {
    "ATAN2": "atan2",
    "EQUAL": "equal",
    "FLOOR_DIV": "floor_div",
    "FLOOR_MOD": "floor_mod",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
    "LOGICAL_AND": "logical_and",
    "LOGICAL_OR": "logical_or",
    "MAXIMUM": "maximum",
    "MINIMUM": "minimum",
    "NOT_EQUAL": "not_equal",
    "POW": "power",
    "SQUARED_DIFFERENCE": "squared_difference",
}
_UNARY = {
    "ABS": "absolute",
    "CEIL": "ceil",
    "COS": "cos",
    "ELU": "elu",
    "EXP": "exp",
    "FLOOR": "floor",
    "HARD_SWISH": "hard_swish",
    "LOG": "log",
    "LOGICAL_NOT": "logical_not",
    "LOGISTIC": "logistic",
    "NEG": "negate",
    "RELU": "relu",
    "RELU6": "relu6",
    "RELU_0_TO_1": "relu_0_to_1",
    "RELU_N1_TO_1": "relu_n1_to_1",
    "ROUND": "round",
    "RSQRT": "rsqrt",
    "SIGN": "sign",
    "SIN": "sin",
    "SQRT": "sqrt",
    "SQUARE": "square",
    "TANH": "tanh",
}


@converts("ADD", "SUB")
def add(op: Operation) -> None:
    """the op of the same name, with the fused activation after it."""
    activation = op.options(AddOptions).activation
    op.give(_FUSED[op.record.op], op.weights(0), op.weights(1), activation=activation)


@converts("MUL", "DIV")
def multiply(op: Operation) -> None:
    """the op of the same name, with the fused activation after it."""
    activation = op.options(MulOptions).activation
    op.give(_FUSED[op.record.op], op.weights(0), op.weights(1), activation=activation)


@converts(*_BINARY)
def binary(op: Operation) -> None:
    """the op of the same name on two values."""
    op.give(_BINARY[op.record.op], op.weights(0), op.weights(1))


@converts(*_UNARY)
def unary(op: Operation) -> None:
    """the op of the same name on one value."""
    op.give(_UNARY[op.record.op], op.input(0))


@converts("PRELU", weights=True)
def prelu(op: Operation) -> None:
    """prelu with broadcast slopes."""
    op.give("prelu", op.input(0), op.weights(1))


@converts("LEAKY_RELU")
def leaky_relu(op: Operation) -> None:
    """leaky_relu."""
    op.give("leaky_relu", op.input(0), attributes=LeakyRelu(op.options(LeakyReluOptions).alpha))


@converts("GELU")
def gelu(op: Operation) -> None:
    """gelu, exact or with tanh."""
    op.give("gelu", op.input(0), attributes=Gelu(op.options(GeluOptions).approximate))


@converts("CAST")
def cast(op: Operation) -> None:
    """cast to the output's element type."""
    op.give("cast", op.input(0), attributes=Cast(op.declared[0].dtype))


@converts("SELECT_V2")
def select_v2(op: Operation) -> None:
    """select with broadcasting."""
    op.give("select", op.input(0), op.weights(1), op.weights(2))


@converts("SELECT")
def select(op: Operation) -> None:
    """select; a vector of conditions selects along the first axis."""
    condition, rank = op.input(0), op.input_type(1).rank
    if op.input_type(0).rank == 1 and rank > 1:
        shape = (op.input_type(0).elements, *(1,) * (rank - 1))
        condition = op.add("reshape", condition, attributes=Reshape(shape), part="rows")
    op.give("select", condition, op.weights(1), op.weights(2))


@converts("ADD_N")
def add_n(op: Operation) -> None:
    """a chain of adds."""
    values = [op.weights(index) for index in range(len(op.inputs))]
    if any(op.type_of(value) != op.type_of(values[0]) for value in values):
        raise ValueError("its inputs differ in type")
    total = values[0]
    for index, value in enumerate(values[1:-1]):
        total = op.add("add", total, value, part=f"sum{index}")
    if len(values) == 1:
        op.give("identity", total)
    else:
        op.give("add", total, values[-1])


@converts("DEQUANTIZE", weights=True)
def dequantize_(op: Operation) -> None:
    """a constant for weights; identity for values, which are real numbers already."""
    name = op.input(0)
    if name in op.builder.constants:
        array = op.builder.constants[name]
        op.reserve(op.input_type(0).with_dtype(DType.F32), array.nbytes)
        op.give_constant(dequantize(array, op.builder.quantization.get(name)))
    else:
        _pass_on(op)


@converts("QUANTIZE")
def quantize(op: Operation) -> None:
    """fake_quantize, or identity if the quantization is the same."""
    name = op.input(0)
    if name in op.builder.constants:
        op.give_constant(op.builder.constants[name])
    else:
        _pass_on(op)


def _pass_on(op: Operation) -> None:
    if op.input_type(0).dtype is not DType.F32:
        raise Unconvertible(f"{op.input_type(0)} is not quantized")
    op.give("identity", op.input(0))
