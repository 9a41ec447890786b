"""Operator helpers shared by all formats: inputs by number, required constants, and outputs."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.formats.axes import axes_of, axis_of
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.operator_nodes import MAX_LIST_LENGTH, PositionalOperator
from fourfold.formats.rule_table import Unconvertible
from fourfold.types import DType, TensorType


def operator(*inputs: str | None, outputs: tuple[str | None, ...] = ("y",)) -> PositionalOperator:
    builder = GraphBuilder(Budget.of(0))
    builder.types["x"] = TensorType(DType.F32, (2, 3))
    builder.constant("numbers", np.array([[4, 5]], np.int64))
    return PositionalOperator(builder, "y", outputs, inputs)


def test_reads_inputs_by_number() -> None:
    op = operator("x", None, "numbers")
    assert op.input() == "x"
    assert op.optional(1) is None
    assert op.optional(7) is None
    assert op.input_type().shape == (2, 3)
    with pytest.raises(ValueError, match="input 1 is missing"):
        op.all_inputs()
    with pytest.raises(ValueError, match="no inputs"):
        operator().all_inputs()


def test_reads_required_constants() -> None:
    op = operator("x", "numbers")
    assert op.integers(1, "sizes") == (4, 5)
    with pytest.raises(ValueError, match="not one number"):
        op.integer(1, "size")
    with pytest.raises(Unconvertible, match="computed at run time"):
        op.integers(0, "sizes")
    op.builder.constant("numbers", np.zeros(MAX_LIST_LENGTH + 1, np.int64))
    with pytest.raises(ValueError, match="not a short list"):
        op.integers(1, "sizes")


def test_unused_outputs_create_no_nodes() -> None:
    op = operator("x", outputs=(None, "y"))
    op.give("relu", "x")
    op.give("relu", "x", output=2)
    op.give_constant(np.zeros(3))
    assert op.builder.nodes == []
    assert op.builder.folded == set()
    op.give("relu", "x", output=1)
    assert [node.outputs for node in op.builder.nodes] == [("y",)]


def test_adds_constants_that_are_not_in_the_file() -> None:
    op = operator("x", "numbers")
    number, array = op.add_constant(2, "number", DType.I32), op.add_constant(np.zeros(3), "array")
    assert op.type_of(number) == TensorType(DType.I32, ())
    assert op.type_of(array).dtype is DType.F64
    later = PositionalOperator(op.builder, "z", ("z",), (number, "numbers"))
    assert not later.in_file(0)
    assert later.in_file(1)
    with pytest.raises(Unconvertible, match="too large"):
        op.reserve(TensorType(DType.F32, (2**29,)))


def test_normalizes_negative_axes() -> None:
    assert (axis_of(-1, 4), axis_of(3, 4), axes_of((-1, 0), 3)) == (3, 3, (0, 2))
    for axis in (4, -5):
        with pytest.raises(ValueError, match="is not one of 4 axes"):
            axis_of(axis, 4)
    with pytest.raises(ValueError, match="twice"):
        axes_of((2, -1), 3)
