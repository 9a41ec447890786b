"""Expansion of resizing along any axes: gather for nearest, matrix product for interpolation."""

from __future__ import annotations

import numpy as np

from fourfold.formats.tflite.write_graph.expansion import Expansion, expands
from fourfold.ops.gather import Gather
from fourfold.ops.resize import ResizeAxes
from fourfold.ops.transpose import Transpose
from fourfold.resampling import TapTable, tap_table
from fourfold.types import DType


@expands("resize")
def resize(to: Expansion) -> bool:
    """one axis after the other; elements outside a crop are selected at the end."""
    a, value = to.attributes(ResizeAxes), to.input(0)
    x = to.type(value)
    if x.dtype is not DType.F32 and a.sampling.mode != "nearest":
        return False
    outside = np.zeros((1,) * x.rank, np.bool_)
    for one in a.axes:
        table = tap_table(a.sampling, one, x.shape[one.axis])
        along = [1] * x.rank
        along[one.axis] = -1
        outside = outside | table.outside.reshape(along)
        if a.sampling.mode == "nearest":
            indices = to.constant(table.indices[:, 0].astype(np.int32), "indices")
            value = to.add("gather", value, indices, attributes=Gather(one.axis))
        else:
            value = _interpolate(to, value, one.axis, table)
    if not outside.any():
        return to.give("identity", value)
    mask, number = to.constant(outside, "outside"), to.number(a.extrapolation, value)
    return to.give("select", mask, number, value)


def _interpolate(to: Expansion, value: str, axis: int, table: TapTable) -> str:
    """Interpolate along an axis with a matrix product."""
    x = to.type(value)
    matrix = np.zeros((len(table.indices), x.shape[axis]), np.float32)
    for row, (places, shares) in enumerate(zip(table.indices, table.weights, strict=True)):
        np.add.at(matrix[row], places, shares)
    weights = to.constant(matrix, "shares")
    order = [*(other for other in range(x.rank) if other != axis), axis]
    back = tuple(order.index(other) for other in range(x.rank))
    last = axis == x.rank - 1
    turned = value if last else to.add("transpose", value, attributes=Transpose(tuple(order)))
    product = to.add("fully_connected", turned, weights, None)
    return product if last else to.add("transpose", product, attributes=Transpose(back))
