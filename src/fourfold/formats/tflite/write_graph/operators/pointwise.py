"""Pointwise ops: arithmetic, activations, comparisons, casts."""

from __future__ import annotations

from fourfold.formats.tflite.schema import TYPES
from fourfold.formats.tflite.write_graph.node_writer import NARROW, Grids, NodeWriter, writes
from fourfold.ops.cast import Cast
from fourfold.ops.gelu import Gelu
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.types import DType

_I8 = frozenset({DType.I8})
_FUSED = {"add": "ADD", "sub": "SUB", "mul": "MUL"}
_BINARY = {
    "atan2": "ATAN2",
    "bitwise_xor": "BITWISE_XOR",
    "floor_div": "FLOOR_DIV",
    "floor_mod": "FLOOR_MOD",
    "logical_and": "LOGICAL_AND",
    "logical_or": "LOGICAL_OR",
    "power": "POW",
}
_COMPARING = {
    "equal": "EQUAL",
    "greater": "GREATER",
    "greater_equal": "GREATER_EQUAL",
    "less": "LESS",
    "less_equal": "LESS_EQUAL",
    "not_equal": "NOT_EQUAL",
}
_UNARY = {
    "ceil": "CEIL",
    "complex_abs": "COMPLEX_ABS",
    "cos": "COS",
    "floor": "FLOOR",
    "logical_not": "LOGICAL_NOT",
    "negate": "NEG",
    "round": "ROUND",
    "sign": "SIGN",
    "sin": "SIN",
    "square": "SQUARE",
}
_CLAMPING = {"relu": "RELU", "relu6": "RELU6"}
# Kernels with a table of all 256 results.
_TABULATED = {
    "elu": "ELU",
    "exp": "EXP",
    "hard_swish": "HARD_SWISH",
    "log": "LOG",
    "rsqrt": "RSQRT",
    "sqrt": "SQRT",
}


@writes("add", "sub", grids=Grids.ANY, fuses=True)
def add(to: NodeWriter) -> None:
    """ADD or SUB with its activation; 16-bit scales are not powers of two."""
    to.give(_FUSED[to.node.op], to.all_inputs(), activation=to.activation, pot_scale_int16=False)


@writes("mul", grids=Grids.ANY, fuses=True)
def multiply(to: NodeWriter) -> None:
    """MUL with its activation."""
    to.give("MUL", to.all_inputs(), activation=to.activation)


@writes("div", "exact_div", fuses=True)
def divide(to: NodeWriter) -> None:
    """DIV with its activation."""
    to.give("DIV", to.all_inputs(), activation=to.activation)


@writes(*_BINARY)
def binary(to: NodeWriter) -> None:
    """The operator of the same name on two values."""
    to.give(_BINARY[to.node.op], to.all_inputs())


@writes("maximum", "minimum", grids=Grids.SAME)
def extreme(to: NodeWriter) -> None:
    """MAXIMUM or MINIMUM."""
    to.give(to.node.op.upper(), to.all_inputs())


@writes("squared_difference", grids=Grids.ANY, integers=_I8)
def squared_difference(to: NodeWriter) -> None:
    """SQUARED_DIFFERENCE."""
    to.give("SQUARED_DIFFERENCE", to.all_inputs())


@writes(*_COMPARING, grids=Grids.ANY, integers=NARROW)
def compare(to: NodeWriter) -> None:
    """The comparison of the same name."""
    to.give(_COMPARING[to.node.op], to.all_inputs())


@writes(*_UNARY)
def unary(to: NodeWriter) -> None:
    """The operator of the same name on one value."""
    to.give(_UNARY[to.node.op], to.all_inputs())


@writes("relu_n1_to_1", grids=Grids.ANY, integers=NARROW)
def relu_n1_to_1(to: NodeWriter) -> None:
    """RELU_N1_TO_1."""
    to.give("RELU_N1_TO_1", to.all_inputs())


@writes(*_CLAMPING, grids=Grids.ANY)
def clamp(to: NodeWriter) -> None:
    """The activation as a separate operator."""
    to.give(_CLAMPING[to.node.op], to.all_inputs())


@writes("relu_0_to_1")
def relu_0_to_1(to: NodeWriter) -> None:
    """RELU_0_TO_1."""
    to.give("RELU_0_TO_1", to.all_inputs())


@writes("absolute")
def absolute(to: NodeWriter) -> None:
    """ABS."""
    to.give("ABS", to.all_inputs())


@writes(*_TABULATED, grids=Grids.ANY, integers=_I8)
def tabulated(to: NodeWriter) -> None:
    """The function of the same name."""
    to.give(_TABULATED[to.node.op], to.all_inputs())


@writes("logistic", "tanh", grids=Grids.FIXED)
def bounded(to: NodeWriter) -> None:
    """LOGISTIC or TANH."""
    to.give(to.node.op.upper(), to.all_inputs())


@writes("prelu", grids=Grids.ANY, integers=NARROW)
def prelu(to: NodeWriter) -> None:
    """PRELU."""
    to.give("PRELU", to.all_inputs())


@writes("leaky_relu", grids=Grids.ANY)
def leaky_relu(to: NodeWriter) -> None:
    """LEAKY_RELU."""
    to.give("LEAKY_RELU", to.all_inputs(), alpha=to.attributes(LeakyRelu).alpha)


@writes("gelu", grids=Grids.ANY, integers=NARROW)
def gelu(to: NodeWriter) -> None:
    """GELU."""
    to.give("GELU", to.all_inputs(), approximate=to.attributes(Gelu).approximate)


@writes("select", grids=Grids.SAME)
def select(to: NodeWriter) -> None:
    """SELECT_V2, which broadcasts."""
    to.give("SELECT_V2", to.all_inputs())


@writes("cast")
def cast(to: NodeWriter) -> None:
    """CAST."""
    source, target = (TYPES.index(one) for one in (to.type(0).dtype, to.attributes(Cast).to))
    to.give("CAST", to.all_inputs(), in_data_type=source, out_data_type=target)


@writes("identity", grids=Grids.SAME)
def identity(to: NodeWriter) -> None:
    """Nothing: the value itself."""
    to.give_tensor(to.input(0))
