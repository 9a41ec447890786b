"""y[n,h,w,o] = bias[o] + sum over fh,fw of x[n,h*s+fh*d-p,w*s+fw*d-p,o/m] * weights[0,fh,fw,o]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, require_rank, takes
from fourfold.ops.base.window import (
    Filter2d,
    Padding,
    check_bias,
    output_size,
    windows,
)
from fourfold.ops.kernels.depthwise.rows import (
    DepthwiseRows,
    depthwise_plain,
    depthwise_row_choices,
    fits_rows,
)
from fourfold.ops.kernels.depthwise.walk import DepthwiseWalk, supports_walk
from fourfold.ops.kernels.quantized.depthwise import DotDepthwise, dot_row_choices, refuses_dot_rows
from fourfold.types import TensorType


@dataclass(frozen=True)
class DepthwiseConv2d(Filter2d):
    """Weights are [1,H,W,C * multiplier]; each channel of x makes `multiplier` neighbours."""

    multiplier: int = 1


@takes("depthwise_conv2d", 2, 3)
def infer(
    attributes: DepthwiseConv2d, x: TensorType, weights: TensorType, bias: TensorType | None = None
) -> Types:
    op, multiplier = "depthwise_conv2d", attributes.multiplier
    require_kind(op, FLOATS, x, weights)
    require_rank(op, "the input", x, 4)
    require_rank(op, "weights", weights, 4)
    out = weights.channels
    matches = weights.shape[0] == 1 and out == x.channels * multiplier and out > 0
    require(matches, op, f"{weights} cannot make {multiplier} channels from each of {x}")
    check_bias(op, bias, x, out)
    size = output_size(op, attributes.window(weights.shape), (x.shape[1], x.shape[2]))
    return (x.with_shape(x.shape[0], *size, out),)


def reference(
    attributes: DepthwiseConv2d, x: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    patches = windows(x, attributes.window(weights.shape))
    filters = weights[0].reshape(*weights.shape[1:3], x.shape[3], attributes.multiplier)
    y: np.ndarray = np.einsum("nyxchw,hwcm->nyxcm", patches, filters, optimize=True)
    y = y.reshape(*y.shape[:3], -1)
    return y if bias is None else y + bias


def refuses_any(context: NodeContext) -> str | None:
    bias = len(context.node.inputs) > 2 and context.node.inputs[2] is not None
    missing = context.array(1) is None or (bias and context.array(2) is None)
    return "weights or bias are computed at run time" if missing else None


def refuses_rows(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, DepthwiseConv2d)
    if context.attributes.multiplier != 1:
        return "several outputs share one input channel"
    fits = fits_rows(context, context.attributes.window(context.input_type(1).shape))
    return refuses_any(context) if fits else "the filter is too large to unroll"


def rows(context: NodeContext) -> None:
    assert isinstance(context.attributes, DepthwiseConv2d)
    make = DepthwiseWalk if supports_walk(context) else DepthwiseRows
    make(context, context.attributes.window(context.input_type(1).shape)).write()


def choices(context: NodeContext) -> list[str]:
    assert isinstance(context.attributes, DepthwiseConv2d)
    return depthwise_row_choices(context, context.attributes.window(context.input_type(1).shape))


def refuses_dots(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, DepthwiseConv2d)
    if context.attributes.multiplier != 1:
        return "several outputs share one input channel"
    shape = context.input_type(1).shape
    return refuses_any(context) or refuses_dot_rows(context, context.attributes.window(shape))


def dots(context: NodeContext) -> None:
    assert isinstance(context.attributes, DepthwiseConv2d)
    DotDepthwise(context, context.attributes.window(context.input_type(1).shape)).write()


def dot_choices(context: NodeContext) -> list[str]:
    assert isinstance(context.attributes, DepthwiseConv2d)
    return dot_row_choices(context, context.attributes.window(context.input_type(1).shape))


def plain(context: NodeContext) -> None:
    assert isinstance(context.attributes, DepthwiseConv2d)
    shape = context.input_type(1).shape
    depthwise_plain(context, context.attributes.window(shape), context.attributes.multiplier)


def _case(x: str, weights: str, attributes: DepthwiseConv2d, bias: bool = True) -> Case:
    channels = weights.removesuffix("]").rpartition(",")[2]
    inputs = (x, weights, f"f32[{channels}]" if bias else None)
    return Case(inputs, attributes, constants=(1, 2) if bias else (1,))


_FAR = Padding(4, 4, 4, 4)
_AROUND = Padding(1, 1, 1, 1)

OP = Op(
    name="depthwise_conv2d",
    attributes=DepthwiseConv2d,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(
        Variant("dots", dots, refuses_dots, dot_choices),
        Variant("rows", rows, refuses_rows, choices),
        Variant("plain", plain, refuses_any),
    ),
    cases=(
        _case("f32[1,1,1,1]", "f32[1,1,1,1]", DepthwiseConv2d()),
        _case("f32[2,5,7,13]", "f32[1,3,3,13]", DepthwiseConv2d(padding=_AROUND)),
        _case(
            "f32[1,11,7,8]", "f32[1,3,3,8]", DepthwiseConv2d((2, 2), padding=_AROUND), bias=False
        ),
        _case("f32[2,7,11,5]", "f32[1,5,3,5]", DepthwiseConv2d((1, 2), (1, 2))),
        _case("f32[2,17,7,8]", "f32[1,3,3,8]", DepthwiseConv2d((1, 1), (4, 4), _FAR)),
        _case("f32[1,23,11,5]", "f32[1,3,3,5]", DepthwiseConv2d((1, 1), (2, 1))),
        _case("f32[1,3,5,7]", "f32[1,3,3,7]", DepthwiseConv2d((1, 1), (5, 2), Padding(5, 4, 2, 2))),
        _case("f32[1,7,7,3]", "f32[1,3,3,3]", DepthwiseConv2d((3, 2), padding=Padding(0, 1, 0, 1))),
        _case("f32[1,5,7,1]", "f32[1,3,3,8]", DepthwiseConv2d(padding=_AROUND, multiplier=8)),
        _case("f32[2,5,7,3]", "f32[1,3,3,6]", DepthwiseConv2d(padding=_AROUND, multiplier=2)),
    ),
)
