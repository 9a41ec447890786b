"""y[n,d,h,w,o] = bias[o] + sum over fd,fh,fw,i of x[n,d*s+fd*l-p,...,i] * weights[o,fd,fh,fw,i].

It is conv2d with one more axis; l is the dilation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, require_rank, takes
from fourfold.ops.base.window import Pair, check_bias
from fourfold.ops.kernels.conv.taps import Taps
from fourfold.ops.kernels.conv.tiled import Convolution
from fourfold.types import Shape, TensorType

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Conv3d:
    """Stride, dilation and padding (before, after) along depth, height and width."""

    stride: Triple = (1, 1, 1)
    dilation: Triple = (1, 1, 1)
    padding: tuple[Pair, Pair, Pair] = ((0, 0), (0, 0), (0, 0))


@takes("conv3d", 2, 3)
def infer(
    attributes: Conv3d, x: TensorType, weights: TensorType, bias: TensorType | None = None
) -> Types:
    require_kind("conv3d", FLOATS, x, weights)
    require_rank("conv3d", "the input", x, 5)
    require_rank("conv3d", "weights", weights, 5)
    matches = x.channels == weights.channels and min(*x.shape[1:], *weights.shape) > 0
    require(matches, "conv3d", f"{weights} cannot read {x}")
    numbers = (*attributes.stride, *attributes.dilation)
    require(min(numbers) > 0, "conv3d", "stride and dilation must be positive")
    require(min(map(min, attributes.padding)) >= 0, "conv3d", "padding must not be negative")
    check_bias("conv3d", bias, x, weights.shape[0])
    spaces = _spaces(attributes, x.shape, weights.shape)
    require(min(spaces) >= 0, "conv3d", f"{weights} is larger than the padded {x}")
    size = (space // stride + 1 for space, stride in zip(spaces, attributes.stride, strict=True))
    return (x.with_shape(x.shape[0], *size, weights.shape[0]),)


def _spaces(attributes: Conv3d, x: Shape, weights: Shape) -> list[int]:
    """Return how far the filter can move along each axis."""
    sizes = zip(x[1:4], weights[1:4], attributes.dilation, attributes.padding, strict=True)
    return [size + sum(pads) - (taps - 1) * gap - 1 for size, taps, gap, pads in sizes]


def reference(
    attributes: Conv3d, x: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    padded = np.pad(x, ((0, 0), *attributes.padding, (0, 0)))
    reach = [
        (taps - 1) * gap + 1
        for taps, gap in zip(weights.shape[1:4], attributes.dilation, strict=True)
    ]
    every = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2, 3))
    (sd, sh, sw), (gd, gh, gw) = attributes.stride, attributes.dilation
    patches = every[:, ::sd, ::sh, ::sw, :, ::gd, ::gh, ::gw]
    y: np.ndarray = np.einsum("nzyxidhw,odhwi->nzyxo", patches, weights, optimize=True)
    return y if bias is None else y + bias


def refuses(context: NodeContext) -> str | None:
    bias = len(context.node.inputs) > 2 and context.node.inputs[2] is not None
    missing = context.array(1) is None or (bias and context.array(2) is None)
    return "weights or bias are computed at run time" if missing else None


def build(context: NodeContext) -> None:
    """Write the tiled convolution; its taps across are height and width together."""
    attributes, weights = context.attributes, context.array(1)
    assert isinstance(attributes, Conv3d)
    assert weights is not None
    flat = weights.reshape(weights.shape[0], -1, weights.shape[4])
    filter = (weights.shape[1], weights.shape[2], weights.shape[3])
    Convolution(context, "conv3d", flat, lambda *views: _taps(attributes, filter, *views)).write()


def _taps(attributes: Conv3d, filter: Triple, kernel: Kernel, source: View, target: View) -> Taps:
    stride, dilation = attributes.stride, attributes.dilation
    width = kernel.size("filter_width", filter[2])

    def start(pixel: Expression) -> tuple[Expression, ...]:
        image, *coordinates = target.coordinates(pixel)
        steps = zip(coordinates, stride, attributes.padding, strict=True)
        return (image, *(position * step - before for position, step, (before, _) in steps))

    def find(
        base: tuple[Expression, ...], row: Expression, column: Expression
    ) -> tuple[Expression, Expression | None]:
        taps = (row, column // width, column % width)
        moves = zip(base[1:], taps, dilation, strict=True)
        coordinates = [kernel.let(first + tap * gap, "at") for first, tap, gap in moves]
        inside = const(True)
        for axis, position in enumerate(coordinates):
            inside = inside & (position >= 0) & (position < source.axis(axis + 1))
        padded = any(map(any, attributes.padding))
        return source.pixel([base[0], *coordinates]), inside if padded else None

    return Taps((filter[0], filter[1] * filter[2]), start, find)


def _case(x: str, weights: str, attributes: Conv3d, bias: bool = True) -> Case:
    channels = weights.removeprefix("f32[").partition(",")[0]
    inputs = (x, weights, f"f32[{channels}]" if bias else None)
    return Case(inputs, attributes, constants=(1, 2) if bias else (1,), low=-1.0, high=1.0)


OP = Op(
    name="conv3d",
    attributes=Conv3d,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("tiled", build, refuses),),
    cases=(
        _case("f32[1,1,1,1,1]", "f32[1,1,1,1,1]", Conv3d()),
        _case("f32[2,3,5,7,3]", "f32[5,2,3,1,3]", Conv3d()),
        _case("f32[1,5,5,7,5]", "f32[7,3,3,3,5]", Conv3d(padding=((1, 1), (1, 1), (1, 1)))),
        _case(
            "f32[1,7,5,11,4]",
            "f32[8,3,2,3,4]",
            Conv3d((2, 1, 3), (1, 2, 1), ((1, 0), (0, 1), (2, 1))),
            bias=False,
        ),
    ),
)
