"""y = conv2d(clamp(depthwise_conv2d(x, filters, offsets), low, high), weights, bias), weights 1x1.

The intermediate value is never in memory. A plan fuses the two convolutions where that is faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import load, widen
from fourfold.codegen.location import slice_channels
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, require_rank, takes
from fourfold.ops.base.window import (
    Filter2d,
    Padding,
    check_bias,
    output_size,
    windows,
)
from fourfold.ops.kernels.conv.taps import window_taps
from fourfold.ops.kernels.conv.tile import ConvTile
from fourfold.ops.kernels.conv.tiled import pack_bias, pack_weights
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.matrix.convolution import (
    MatrixConvolution,
    matrix_choices,
    refuses_matrix_units,
)
from fourfold.ops.kernels.matrix.depthwise_feed import DepthwiseFeed
from fourfold.ops.kernels.matrix.feed import make_clamp
from fourfold.types import TensorType


@dataclass(frozen=True)
class SeparableConv2d(Filter2d):
    """Filters are [1,H,W,I], weights [O,1,1,I]; low..high clamps the intermediate value."""

    low: float = -inf
    high: float = inf


@takes("separable_conv2d", 3, 5)
def infer(
    attributes: SeparableConv2d,
    x: TensorType,
    filters: TensorType,
    weights: TensorType,
    offsets: TensorType | None = None,
    bias: TensorType | None = None,
) -> Types:
    op = "separable_conv2d"
    require_kind(op, FLOATS, x, filters, weights)
    require_rank(op, "the input", x, 4)
    require_rank(op, "filters", filters, 4)
    require_rank(op, "weights", weights, 4)
    matches = filters.shape[0] == 1 and filters.channels == x.channels == weights.channels
    require(matches and x.channels > 0, op, f"{filters} and {weights} cannot read {x}")
    require(weights.shape[1:3] == (1, 1), op, f"weights {weights} are not 1x1")
    check_bias(op, offsets, x, x.channels)
    check_bias(op, bias, x, weights.shape[0])
    size = output_size(op, attributes.window(filters.shape), (x.shape[1], x.shape[2]))
    return (x.with_shape(x.shape[0], *size, weights.shape[0]),)


def reference(
    attributes: SeparableConv2d,
    x: np.ndarray,
    filters: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> np.ndarray:
    patches = windows(x, attributes.window(filters.shape))
    middle: np.ndarray = np.einsum("nyxchw,hwc->nyxc", patches, filters[0], optimize=True)
    middle = middle if offsets is None else middle + offsets
    middle = np.clip(middle, attributes.low, attributes.high).astype(x.dtype)
    y: np.ndarray = middle @ weights[:, 0, 0].T
    return y if bias is None else y + bias


def refuses_any(context: NodeContext) -> str | None:
    names = [name for name in context.node.inputs[1:] if name is not None]
    constant = all(name in context.constants for name in names)
    return None if constant else "filters or weights are computed at run time"


def refuses_matrix(context: NodeContext) -> str | None:
    if context.input.slices % 4:
        return "the channels do not fill steps of sixteen"
    return refuses_any(context) or refuses_matrix_units(context)


def _offsets(context: NodeContext) -> np.ndarray:
    offsets = context.array(3)
    padded = np.zeros(context.input.slices * 4, np.float32)
    padded[: context.input.channels] = 0 if offsets is None else offsets
    return padded


def _feed(context: NodeContext) -> DepthwiseFeed:
    attributes, filters = context.attributes, context.array(1)
    assert isinstance(attributes, SeparableConv2d)
    assert filters is not None
    flat = filters.reshape(-1, filters.shape[-1])
    clamp = make_clamp(attributes.low, attributes.high)
    return DepthwiseFeed(
        context, attributes.window(filters.shape), (flat, _offsets(context)), clamp
    )


def matrix(context: NodeContext) -> None:
    weights = context.array(2)
    assert weights is not None
    flat = weights.reshape(weights.shape[0], -1)
    MatrixConvolution(context, "separable", _feed(context), flat, context.array(4)).write()


def choose_matrix(context: NodeContext) -> list[str]:
    return matrix_choices(context, _feed(context).work)


def plain(context: NodeContext) -> None:
    """Compute one output pixel and slice per work-item: simple and slow.

    Every work-item computes the intermediate value anew.
    """
    attributes, filters, weights = context.attributes, context.array(1), context.array(2)
    assert isinstance(attributes, SeparableConv2d)
    assert filters is not None
    assert weights is not None
    kernel, tile = context.kernel("separable_plain"), ConvTile(1, 1, 4)
    source, target = context.read(kernel, 0), context.write(kernel)
    taps = window_taps(attributes.window(filters.shape))(kernel, source, target)
    packed_filters = context.weights(
        kernel, "filters", slice_channels(filters.reshape(-1, source.type.channels))
    )
    offsets = context.packed(kernel, "offsets", _offsets(context))
    flat = pack_weights(weights.reshape(weights.shape[0], 1, -1), tile)
    factors = context.weights(kernel, "weights", flat)
    bias = context.packed(
        kernel, "bias", pack_bias(context.array(4), context.output.channels, tile)
    )
    clamp, (down, across) = make_clamp(attributes.low, attributes.high), taps.count
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        total = kernel.variable(load(bias, slice_, kernel.real, 4), "sum")
        base = tuple(kernel.let(part, "base") for part in taps.start(pixel))
        with kernel.loop(source.slices, title="from") as part:
            middle = kernel.variable(load(offsets, part, kernel.real, 4), "middle")
            with (
                kernel.loop(kernel.size("filter_rows", down), title="row") as row,
                kernel.loop(kernel.size("filter_columns", across), title="column") as column,
            ):
                source_pixel, inside = taps.find(base, row, column)
                tap = kernel.let((part * down + row) * across + column, "tap")
                value = source.load(source_pixel, part, inside)
                kernel.add(middle, value * load(packed_filters, tap, kernel.real, 4))
            clamped_middle = kernel.let(clamp(middle), "m")
            start = kernel.let((slice_ * source.slices + part) * 4, "k")
            for lane in range(4):
                factor = load(factors, start + lane, kernel.real, 4)
                kernel.add(total, widen(clamped_middle.lane(lane), 4) * factor)
        target.store(pixel, slice_, total)


def _case(x: str, filters: str, weights: str, attributes: SeparableConv2d, bias: bool) -> Case:
    inside = weights.removesuffix("]").rpartition(",")[2]
    outside = weights.removeprefix("f32[").partition(",")[0]
    biases = (f"f32[{inside}]", f"f32[{outside}]") if bias else (None, None)
    constants = (1, 2, 3, 4) if bias else (1, 2)
    inputs = (x, filters, weights, *biases)
    return Case(inputs, attributes, constants, low=-1.0, high=1.0)


_AROUND = Padding(1, 1, 1, 1)

OP = Op(
    name="separable_conv2d",
    attributes=SeparableConv2d,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(
        Variant("matrix", matrix, refuses_matrix, choose_matrix),
        Variant("plain", plain, refuses_any),
    ),
    cases=(
        _case("f32[1,1,1,1]", "f32[1,1,1,1]", "f32[1,1,1,1]", SeparableConv2d(), bias=True),
        _case(
            "f32[2,5,7,13]",
            "f32[1,3,3,13]",
            "f32[11,1,1,13]",
            SeparableConv2d(padding=_AROUND, low=0.0, high=0.5),
            bias=True,
        ),
        _case(
            "f32[1,11,7,16]",
            "f32[1,3,3,16]",
            "f32[24,1,1,16]",
            SeparableConv2d((2, 2), padding=Padding(0, 1, 0, 1), low=0.0),
            bias=False,
        ),
        _case(
            "f32[2,7,11,64]",
            "f32[1,5,3,64]",
            "f32[37,1,1,64]",
            SeparableConv2d((1, 2), (1, 2), high=0.25),
            bias=True,
        ),
        _case(
            "f32[1,7,7,208]",
            "f32[1,3,3,208]",
            "f32[72,1,1,208]",
            SeparableConv2d(padding=_AROUND),
            bias=True,
        ),
    ),
)
