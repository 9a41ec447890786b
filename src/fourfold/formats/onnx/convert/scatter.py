"""Gather and scatter operators."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.reverse_sequence import ReverseSequence
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.ops.scatter_update import ScatterUpdate
from fourfold.ops.tile import Tile
from fourfold.types import DType


@converts("GatherElements")
def gather_elements(op: Operation) -> None:
    """gather_elements."""
    axis = axis_of(op.attribute("axis", 0), op.input_type(0).rank)
    op.give("gather_elements", op.input(0), op.input(1), attributes=GatherElements(axis))


@converts("ScatterElements", "Scatter")
def scatter_elements(op: Operation) -> None:
    """scatter_elements."""
    axis = axis_of(op.attribute("axis", 0), op.input_type(0).rank)
    attributes = ScatterElements(axis, op.text_attribute("reduction", "none"))
    op.give("scatter_elements", op.input(0), op.input(1), op.input(2), attributes=attributes)


@converts("ScatterND")
def scatter_nd(op: Operation) -> None:
    """scatter_update."""
    attributes = ScatterUpdate(op.text_attribute("reduction", "none"))
    op.give("scatter_update", op.input(0), op.input(1), op.input(2), attributes=attributes)


@converts("TensorScatter")
def tensor_scatter(op: Operation) -> None:
    """scatter_elements, from an offset per batch entry on."""
    target, update = op.input_type(0), op.input_type(1)
    axis = axis_of(op.attribute("axis", -2), target.rank)
    if axis == 0:
        raise ValueError("its axis is the batch axis")
    steps = [1] * update.rank
    steps[axis] = update.shape[axis]
    indices = op.add_constant(np.arange(update.shape[axis], dtype=np.int64).reshape(steps), "steps")
    if op.optional(2) is not None:
        starts = op.reshaped(op.input(2), (update.shape[0], *(1,) * (update.rank - 1)), "starts")
        starts = op.converted(starts, DType.I64, "whole_starts")
        indices = op.add("add", indices, starts, part="places")
        if op.text_attribute("mode", "linear") == "circular":
            size = op.add_constant(np.array(target.shape[axis], np.int64), "size")
            indices = op.add("floor_mod", indices, size, part="around")
    sizes = op.type_of(indices).shape
    multiples = tuple(a // b for a, b in zip(update.shape, sizes, strict=True))
    indices = op.add("tile", indices, attributes=Tile(multiples), part="all_places")
    attributes = ScatterElements(axis)
    op.give("scatter_elements", op.input(0), indices, op.input(1), attributes=attributes)


@converts("ReverseSequence")
def reverse_sequence(op: Operation) -> None:
    """reverse_sequence; if the last axis takes part, a new axis is appended."""
    x = op.input_type(0)
    time, batch = (
        axis_of(op.attribute(name, default), x.rank)
        for name, default in (("time_axis", 0), ("batch_axis", 1))
    )
    value, attributes = op.input(0), ReverseSequence(time, batch)
    if max(time, batch) < x.rank - 1:
        op.give("reverse_sequence", value, op.input(1), attributes=attributes)
        return
    value = op.reshaped(value, (*x.shape, 1), "column")
    value = op.add("reverse_sequence", value, op.input(1), attributes=attributes, part="reversed")
    op.give_value(op.reshaped(value, x.shape, "row"))
