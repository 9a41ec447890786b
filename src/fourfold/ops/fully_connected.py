"""y[...,n] = bias[n] + the sum over k of x[...,k] * weights[n,k]."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.site import Site
from fourfold.op import Case, Op, Types, Variant
from fourfold.ops._convolve import Convolution, tile_choices
from fourfold.ops._direct import direct_product
from fourfold.ops._dots import DotConvolution, is_in_words, refuses_dots
from fourfold.ops._matrix import MatrixConvolution, matrix_choices, refuses_matrix_units
from fourfold.ops._matrix_feed import WindowFeed, flatten_taps
from fourfold.ops._rows import RowProduct, refuses_rows, row_choices
from fourfold.ops._rules import FLOATS, require, require_kind, require_rank, takes
from fourfold.ops._taps import plain_taps
from fourfold.ops._window import check_bias
from fourfold.types import TensorType

FEW_ROWS = 8


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


def refuses_tiled(site: Site) -> str | None:
    bias = len(site.node.inputs) > 2 and site.node.inputs[2] is not None
    if site.array(1) is None or (bias and site.array(2) is None):
        return "weights or bias are computed at run time"
    return None


def tiled(site: Site) -> None:
    weights = site.array(1)
    assert weights is not None
    Convolution(site, "fully_connected", weights[:, None, :], plain_taps).write()


def refuses_rows_here(site: Site) -> str | None:
    return refuses_tiled(site) or refuses_rows(site)


def rows(site: Site) -> None:
    weights = site.array(1)
    assert weights is not None
    RowProduct(site, "fully_connected", weights, site.array(2)).write()


def refuses_dot_products(site: Site) -> str | None:
    reason = refuses_tiled(site) or refuses_dots(site)
    return reason or (None if is_in_words(site) else "the input is not in slices")


def dots(site: Site) -> None:
    weights = site.array(1)
    assert weights is not None
    DotConvolution(site, "fully_connected_dots", weights[:, None, :], plain_taps).write()


def refuses_matrix(site: Site) -> str | None:
    few = site.output.pixels < FEW_ROWS
    reason = f"fewer than {FEW_ROWS} rows are better taken apart" if few else None
    return reason or refuses_tiled(site) or refuses_matrix_units(site)


def matrix(site: Site) -> None:
    weights = site.array(1)
    assert weights is not None
    feed, flat = WindowFeed(site, plain_taps, 1), flatten_taps(weights[:, None, :])
    MatrixConvolution(site, "fully_connected", feed, flat, site.array(2)).write()


def choose_matrix(site: Site) -> list[str]:
    return matrix_choices(site, WindowFeed(site, plain_taps, 1).work)


OP = Op(
    name="fully_connected",
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(
        Variant("matrix", matrix, refuses_matrix, choose_matrix),
        Variant("rows", rows, refuses_rows_here, row_choices),
        Variant("dots", dots, refuses_dot_products, lambda site: tile_choices(site, 1)),
        Variant("tiled", tiled, refuses_tiled, lambda site: tile_choices(site, 1)),
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
