"""Operators on complex numbers: Fourier transforms and absolute values."""

from __future__ import annotations

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.ops.rfft2d import Rfft2d

MAX_LENGTH = 1 << 16


@converts("RFFT2D")
def rfft2d(op: Operation) -> None:
    """rfft2d of a constant size."""
    rows, columns = op.integers(1, "lengths")
    if max(rows, columns) > MAX_LENGTH:
        raise Unconvertible(f"a transform of {rows} by {columns} is too large")
    op.give("rfft2d", op.input(0), attributes=Rfft2d((rows, columns)))


@converts("COMPLEX_ABS")
def complex_abs(op: Operation) -> None:
    """complex_abs."""
    op.give("complex_abs", op.input(0))
