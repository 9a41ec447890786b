"""Selection operators."""

from __future__ import annotations

from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.rule import converts
from fourfold.ops.reshape import Reshape


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
