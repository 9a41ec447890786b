"""Operators with constant results: shapes, ranges, densified weights."""

from __future__ import annotations

import numpy as np

from fourfold.formats.operator_nodes import give_full, give_range
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import ShapeOptions
from fourfold.formats.tflite.schema import element_type
from fourfold.types import DType


@converts("SHAPE")
def shape(op: Operation) -> None:
    """a constant; all shapes are known."""
    kind = element_type(op.options(ShapeOptions).out_type)
    wide = kind is DType.I64 or op.declared[0].dtype is DType.I64
    op.give_constant(np.array(op.input_type(0).shape, np.int64 if wide else np.int32))


@converts("RANK")
def rank(op: Operation) -> None:
    """a constant; all shapes are known."""
    op.give_constant(np.array(op.input_type(0).rank, np.int32))


@converts("RANGE")
def range_(op: Operation) -> None:
    """a constant."""
    give_range(op, *(op.constant(i, what) for i, what in enumerate(("start", "limit", "step"))))


@converts("FILL")
def fill(op: Operation) -> None:
    """a constant."""
    give_full(op, op.integers(0, "shape"), op.constant(1, "value"))


@converts("ZEROS_LIKE")
def zeros_like(op: Operation) -> None:
    """a constant; all shapes are known."""
    x = op.input_type(0)
    give_full(op, x.shape, np.zeros((), x.dtype.numpy))


@converts("DENSIFY", moves=True)
def densify(op: Operation) -> None:
    """a constant; sparse weights are filled in while reading."""
    op.give_constant(op.constant(0, "weights"))
