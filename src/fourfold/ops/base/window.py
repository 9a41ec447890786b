"""Windows that slide over [N,H,W,C]: padding, output sizes and the elements under each window."""

from __future__ import annotations

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
