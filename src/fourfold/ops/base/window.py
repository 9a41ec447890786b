"""Windows that slide over [N,H,W,C]: padding, output sizes and the elements under each window.

Pooling works over any number of axes of [N, ..., C], with dilation and windows beyond the padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fourfold.ops.base import Types
from fourfold.ops.base.rules import Infer, Kinds, require, require_kind, require_rank, takes
from fourfold.types import Shape, TensorType

Pair = tuple[int, int]


@dataclass(frozen=True)
class Padding:
    """Rows and columns of padding around an image."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    @property
    def height(self) -> Pair:
        return self.top, self.bottom

    @property
    def width(self) -> Pair:
        return self.left, self.right


NO_PADDING = Padding()


@dataclass(frozen=True)
class Window:
    """Filter size, stride, padding and dilation of a sliding window."""

    filter: Pair
    stride: Pair
    padding: Padding
    dilation: Pair = (1, 1)

    @property
    def reach(self) -> Pair:
        """Rows and columns from the first tap to the last, inclusive."""
        height, width = ((f - 1) * d + 1 for f, d in zip(self.filter, self.dilation, strict=True))
        return height, width


@dataclass(frozen=True)
class Filter2d:
    """Stride, dilation and padding of a convolution; its weights are [.,H,W,.]."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Padding = NO_PADDING

    def window(self, weights: Shape) -> Window:
        return Window((weights[1], weights[2]), self.stride, self.padding, self.dilation)


@dataclass(frozen=True)
class Pool2d:
    """Filter size, stride and padding of a pool."""

    filter: Pair
    stride: Pair
    padding: Padding = NO_PADDING


def same(size: int, filter: int, stride: int, dilation: int = 1) -> Pair:
    """Return the SAME padding before and after, for ceil(size / stride) steps; the odd one is
    after.
    """
    reach = (filter - 1) * dilation + 1
    steps = -(-size // stride)
    total = max((steps - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def output_size(op: str, window: Window, image: Pair) -> Pair:
    """Return how many windows fit down and across."""
    numbers = (*window.filter, *window.stride, *window.dilation)
    require(min(numbers) > 0, op, "filter, stride and dilation must be positive")
    padding = (window.padding.height, window.padding.width)
    require(min(*padding[0], *padding[1]) >= 0, op, "padding must not be negative")
    spaces = [
        size + sum(pads) - reach
        for size, pads, reach in zip(image, padding, window.reach, strict=True)
    ]
    fits = min(*spaces, *(size - 1 for size in image)) >= 0
    require(fits, op, f"a filter of {window.reach} is larger than the padded image of {image}")
    height, width = (
        space // stride + 1 for space, stride in zip(spaces, window.stride, strict=True)
    )
    return height, width


def windows(x: np.ndarray, window: Window, fill: float = 0.0) -> np.ndarray:
    """Return the elements under each window: [N,H,W,C] -> [N,OH,OW,C,FH,FW]."""
    around = ((0, 0), window.padding.height, window.padding.width, (0, 0))
    padded = np.pad(x, around, constant_values=fill)
    every = np.lib.stride_tricks.sliding_window_view(padded, window.reach, axis=(1, 2))
    (sh, sw), (dh, dw) = window.stride, window.dilation
    return every[:, ::sh, ::sw, :, ::dh, ::dw]


def pool_window(attributes: Pool2d) -> Window:
    return Window(attributes.filter, attributes.stride, attributes.padding)


def pool2d_type(op: str, kinds: Kinds) -> Infer:
    """Return the type rule of a pool over [N,H,W,C]. Every window must touch the image."""

    @takes(op, 1)
    def infer(attributes: Pool2d, x: TensorType) -> Types:
        require_kind(op, kinds, x)
        require_rank(op, "the input", x, 4)
        size = output_size(op, pool_window(attributes), (x.shape[1], x.shape[2]))
        (height, width), padding = attributes.filter, attributes.padding
        touches = max(padding.height) < height and max(padding.width) < width
        require(touches, op, f"padding {padding} is not smaller than filter {attributes.filter}")
        return (x.with_shape(x.shape[0], *size, x.shape[3]),)

    return infer


def check_bias(op: str, bias: TensorType | None, like: TensorType, channels: int) -> None:
    """Require a bias (if any) with one number per output channel and the dtype of the input."""
    if bias is not None:
        require_kind(op, frozenset({like.dtype}), bias)
        require(bias.shape == (channels,), op, f"bias is {bias}, but must be [{channels}]")


@dataclass(frozen=True)
class PoolAxes:
    """Attributes of a pool, with one number for each axis between batch and channels.

    `before` and `after` are the padding, `size` is the output size.
    """

    filter: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape
    size: Shape

    @property
    def axes(self) -> int:
        return len(self.filter)


def pool_axes_type(op: str, kinds: Kinds) -> Infer:
    """Return the type rule of a pool over [N, ..., C]; windows may end anywhere."""

    @takes(op, 1)
    def infer(attributes: PoolAxes, x: TensorType) -> Types:
        require_kind(op, kinds, x)
        groups = (attributes.stride, attributes.dilation, attributes.before, attributes.after)
        counts = {len(numbers) for numbers in (attributes.filter, attributes.size, *groups)}
        require(counts == {x.rank - 2}, op, f"{attributes} does not match the inner axes of {x}")
        smallest = min(
            attributes.filter + attributes.stride + attributes.dilation + attributes.size
        )
        require(smallest > 0, op, "filter, stride, dilation and size must be positive")
        require(min(attributes.before + attributes.after) >= 0, op, "padding must not be negative")
        require(min(x.shape) > 0, op, f"{x} is empty")
        return (x.with_shape(x.shape[0], *attributes.size, x.channels),)

    return infer


def tap_views(attributes: PoolAxes, x: np.ndarray, fill: float) -> Iterator[np.ndarray]:
    """Yield, for each filter tap, the elements under it in every window; `fill` outside of x."""
    around = [(0, 0)]
    spans = []
    for axis in range(attributes.axes):
        span = (attributes.size[axis] - 1) * attributes.stride[axis] + 1
        reach = span + (attributes.filter[axis] - 1) * attributes.dilation[axis]
        before, size = attributes.before[axis], x.shape[1 + axis]
        around.append((before, max(0, reach - before - size)))
        spans.append(span)
    padded = np.pad(x, [*around, (0, 0)], constant_values=fill)
    for tap in np.ndindex(attributes.filter):
        starts = [number * step for number, step in zip(tap, attributes.dilation, strict=True)]
        cuts = zip(starts, spans, attributes.stride, strict=True)
        inner = (slice(start, start + span, step) for start, span, step in cuts)
        yield padded[(slice(None), *inner)]
