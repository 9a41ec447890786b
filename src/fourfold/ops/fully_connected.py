"""y[...,n] = bias[n] + sum over k of x[...,k] * weights[n,k]."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, require_rank, takes
from fourfold.ops.base.window import check_bias
from fourfold.ops.kernels.conv.direct import direct_product
from fourfold.ops.kernels.conv.taps import plain_taps
from fourfold.ops.kernels.conv.tiled import Convolution, tile_choices
from fourfold.ops.kernels.matrix.convolution import (
    MatrixConvolution,
    matrix_choices,
    refuses_matrix_units,
)
from fourfold.ops.kernels.matrix.feed import WindowFeed, flatten_taps
from fourfold.ops.kernels.quantized.convolution import DotConvolution, is_in_words, refuses_dots
from fourfold.ops.kernels.row_product import RowProduct, refuses_rows, row_choices
from fourfold.types import TensorType

MIN_MATRIX_ROWS = 8


@takes("fully_connected", 2, 3)
def infer(
    attributes: object, x: TensorType, weights: TensorType, bias: TensorType | None = None
) -> Types:
    op = "fully_connected"
    require_kind(op, FLOATS, x, weights)
    require_rank(op, "weights", weights, 2)
    matches = x.rank > 0 and x.shape[-1] == weights.shape[1] and min(weights.shape) > 0
    require(matches, op, f"{weights} cannot read {x}")
    check_bias(op, bias, x, weights.shape[0])
    return (x.with_shape(*x.shape[:-1], weights.shape[0]),)


def reference(
    attributes: object, x: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    y: np.ndarray = x @ weights.T
    return y if bias is None else y + bias


def refuses_tiled(context: NodeContext) -> str | None:
    bias = len(context.node.inputs) > 2 and context.node.inputs[2] is not None
    if context.array(1) is None or (bias and context.array(2) is None):
        return "weights or bias are computed at run time"
    return None


def tiled(context: NodeContext) -> None:
    weights = context.array(1)
    assert weights is not None
    Convolution(context, "fully_connected", weights[:, None, :], plain_taps).write()


def refuses_rows_here(context: NodeContext) -> str | None:
    return refuses_tiled(context) or refuses_rows(context)


def rows(context: NodeContext) -> None:
    weights = context.array(1)
    assert weights is not None
    RowProduct(context, "fully_connected", weights, context.array(2)).write()


def refuses_dot_products(context: NodeContext) -> str | None:
    reason = refuses_tiled(context) or refuses_dots(context)
    return reason or (None if is_in_words(context) else "the input is not stored in slices")


def dots(context: NodeContext) -> None:
    weights = context.array(1)
    assert weights is not None
    DotConvolution(context, "fully_connected_dots", weights[:, None, :], plain_taps).write()


def refuses_matrix(context: NodeContext) -> str | None:
    few = context.output.pixels < MIN_MATRIX_ROWS
    reason = f"there are fewer than {MIN_MATRIX_ROWS} rows" if few else None
    return reason or refuses_tiled(context) or refuses_matrix_units(context)


def matrix(context: NodeContext) -> None:
    weights = context.array(1)
    assert weights is not None
    feed, flat = WindowFeed(context, plain_taps, 1), flatten_taps(weights[:, None, :])
    MatrixConvolution(context, "fully_connected", feed, flat, context.array(2)).write()


def choose_matrix(context: NodeContext) -> list[str]:
    return matrix_choices(context, WindowFeed(context, plain_taps, 1).work)


OP = Op(
    name="fully_connected",
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(
        Variant("matrix", matrix, refuses_matrix, choose_matrix),
        Variant("rows", rows, refuses_rows_here, row_choices),
        Variant("dots", dots, refuses_dot_products, lambda context: tile_choices(context, 1)),
        Variant("tiled", tiled, refuses_tiled, lambda context: tile_choices(context, 1)),
        Variant("direct", direct_product),
    ),
    cases=(
        Case(("f32[7]", "f32[3,7]", "f32[3]"), constants=(1, 2)),
        Case(("f32[1,1]", "f32[1,1]", None), constants=(1,)),
        Case(("f32[1,128]", "f32[13,128]", "f32[13]"), constants=(1, 2), low=-1.0, high=1.0),
        Case(("f32[5,31]", "f32[11,31]", None), constants=(1,), low=-1.0, high=1.0),
        Case(("f32[2,3,7]", "f32[5,7]", "f32[5]"), constants=(1, 2)),
        Case(("f32[2,1,3,13]", "f32[8,13]", "f32[8]"), constants=(1, 2)),
        Case(("f32[5,31]", "f32[11,31]", None), low=-1.0, high=1.0),
        Case(("f32[1,263]", "f32[11,263]", "f32[11]"), constants=(1, 2), low=-1.0, high=1.0),
        Case(("f32[3,2309]", "f32[5,2309]", None), constants=(1,), low=-1.0, high=1.0),
        Case(("f32[3,7,29]", "f32[37,29]", "f32[37]"), constants=(1, 2), low=-1.0, high=1.0),
    ),
)
