"""CumProd: cumulative products."""

from __future__ import annotations

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.ops.cumprod import Cumprod


@converts("CumProd")
def cumprod(op: Operation) -> None:
    """cumprod along a constant axis."""
    axis = axis_of(op.integer(1, "axis"), op.input_type(0).rank)
    flags = bool(op.attribute("exclusive", 0)), bool(op.attribute("reverse", 0))
    op.give("cumprod", op.input(0), attributes=Cumprod(axis, *flags))
