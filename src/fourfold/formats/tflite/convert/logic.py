"""Operators that compare, choose and round, and what else works on each element."""

from __future__ import annotations

from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.rule import converts
from fourfold.ops.reshape import Reshape

_BINARY = {
    "ATAN2": "atan2",
    "EQUAL": "equal",
    "FLOOR_DIV": "floor_div",
    "FLOOR_MOD": "floor_mod",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
    "LOGICAL_OR": "logical_or",
    "NOT_EQUAL": "not_equal",
}
_UNARY = {
    "CEIL": "ceil",
    "COS": "cos",
    "LOGICAL_NOT": "logical_not",
    "RELU_0_TO_1": "relu_0_to_1",
    "ROUND": "round",
    "SIGN": "sign",
    "SIN": "sin",
}


@converts(*_BINARY)
def binary(op: Operation) -> None:
    """the same op on two values."""
    op.give(_BINARY[op.record.op], op.weights(0), op.weights(1))


@converts(*_UNARY)
def unary(op: Operation) -> None:
    """the same op on one value."""
    op.give(_UNARY[op.record.op], op.input(0))


@converts("SELECT_V2")
def select_v2(op: Operation) -> None:
    """select, the shapes spread over each other."""
    op.give("select", op.input(0), op.weights(1), op.weights(2))


@converts("SELECT")
def select(op: Operation) -> None:
    """select; a list of conditions chooses along the first axis."""
    condition, rank = op.input(0), op.input_type(1).rank
    if op.input_type(0).rank == 1 and rank > 1:
        shape = (op.input_type(0).elements, *(1,) * (rank - 1))
        condition = op.add("reshape", condition, attributes=Reshape(shape), part="rows")
    op.give("select", condition, op.weights(1), op.weights(2))


@converts("ADD_N")
def add_n(op: Operation) -> None:
    """add, one value after the other."""
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
