"""y[n,h*s-p+fh,w*s-p+fw,o] = bias[o] + sum over h,w,fh,fw,i of x[n,h,w,i] * weights[o,fh,fw,i]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, require_rank, takes
from fourfold.ops.base.window import Padding, Pair, Window, check_bias, output_size
from fourfold.ops.kernels.conv.direct import direct_transposed
from fourfold.ops.kernels.conv.taps import Taps
from fourfold.ops.kernels.conv.tiled import Convolution, tile_choices
from fourfold.types import TensorType


@dataclass(frozen=True)
class TransposeConv2d:
    """`size` is the output's height and width, `padding` is cropped from the full result."""

    stride: Pair
    padding: Padding
    size: Pair


@takes("transpose_conv2d", 2, 3)
def infer(
    attributes: TransposeConv2d, x: TensorType, weights: TensorType, bias: TensorType | None = None
) -> Types:
    op = "transpose_conv2d"
    require_kind(op, FLOATS, x, weights)
    require_rank(op, "the input", x, 4)
    require_rank(op, "weights", weights, 4)
    matches = x.channels == weights.channels and min(*x.shape[1:], *weights.shape) > 0
    require(matches, op, f"{weights} cannot read {x}")
    out = weights.shape[0]
    check_bias(op, bias, x, out)
    filter = (weights.shape[1], weights.shape[2])
    # The convolution that this op reverses must lead from the output size to the input size.
    back = output_size(op, Window(filter, attributes.stride, attributes.padding), attributes.size)
    require(back == x.shape[1:3], op, f"{attributes} needs an input of {back}, not {x}")
    return (x.with_shape(x.shape[0], *attributes.size, out),)


def reference(
    attributes: TransposeConv2d,
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None = None,
) -> np.ndarray:
    (sh, sw), pads = attributes.stride, attributes.padding
    batch, height, width, _ = x.shape
    out, fh, fw, _ = weights.shape
    bottom, right = pads.top + attributes.size[0], pads.left + attributes.size[1]
    # Large enough for all contributions and for the crop: a stride can leave rows without any.
    reach = (max((height - 1) * sh + fh, bottom), max((width - 1) * sw + fw, right))
    full = np.zeros((batch, *reach, out), x.dtype)
    for y, x0 in np.ndindex(fh, fw):
        rows = slice(y, y + (height - 1) * sh + 1, sh)
        columns = slice(x0, x0 + (width - 1) * sw + 1, sw)
        full[:, rows, columns] += x @ weights[:, y, x0].T
    kept = full[:, pads.top : bottom, pads.left : right]
    return kept if bias is None else kept + bias


def refuses(context: NodeContext) -> str | None:
    bias = len(context.node.inputs) > 2 and context.node.inputs[2] is not None
    missing = context.array(1) is None or (bias and context.array(2) is None)
    return "weights or bias are computed at run time" if missing else None


def build(context: NodeContext) -> None:
    """Each output pixel gathers its inputs: the taps whose distance the stride divides."""
    attributes, weights = context.attributes, context.array(1)
    assert isinstance(attributes, TransposeConv2d)
    assert weights is not None
    flat = weights.reshape(weights.shape[0], -1, weights.shape[3])
    filter = (weights.shape[1], weights.shape[2])
    Convolution(
        context, "transpose_conv2d", flat, lambda *views: _taps(attributes, filter, *views)
    ).write()


def refuses_constants(context: NodeContext) -> str | None:
    return None if refuses(context) else "weights and bias are constants"


def direct(context: NodeContext) -> None:
    """Write the direct kernel, for weights that are computed at run time."""
    attributes = context.attributes
    assert isinstance(attributes, TransposeConv2d)
    before = (attributes.padding.top, attributes.padding.left)
    direct_transposed(context, attributes.stride, before)


def choices(context: NodeContext) -> list[str]:
    rows, columns = context.input_type(1).shape[1:3]
    return tile_choices(context, rows * columns)


def _taps(
    attributes: TransposeConv2d, filter: Pair, kernel: Kernel, source: View, target: View
) -> Taps:
    down, across = (kernel.size(f"stride{a}", attributes.stride[a]) for a in (0, 1))

    def start(pixel: Expression) -> tuple[Expression, ...]:
        image, row, column = target.coordinates(pixel)
        padding = attributes.padding
        top = row + kernel.size("before0", padding.top)
        return image, top, column + kernel.size("before1", padding.left)

    def find(
        base: tuple[Expression, ...], row: Expression, column: Expression
    ) -> tuple[Expression, Expression | None]:
        y, x = kernel.let(base[1] - row, "y"), kernel.let(base[2] - column, "x")
        inside = (y >= 0) & (x >= 0) & (y % down).equals(0) & (x % across).equals(0)
        inside = inside & (y // down < source.axis(1)) & (x // across < source.axis(2))
        return source.pixel([base[0], y // down, x // across]), inside

    return Taps(filter, start, find)


def _case(x: str, weights: str, attributes: TransposeConv2d, bias: bool = True) -> Case:
    channels = weights.removeprefix("f32[").partition(",")[0]
    inputs = (x, weights, f"f32[{channels}]" if bias else None)
    return Case(inputs, attributes, constants=(1, 2) if bias else (1,), low=-1.0, high=1.0)


_SAME = Padding(1, 1, 1, 1)

OP = Op(
    name="transpose_conv2d",
    attributes=TransposeConv2d,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(
        Variant("gather", build, refuses, choices),
        Variant("direct", direct, refuses_constants),
    ),
    cases=(
        _case("f32[1,1,1,1]", "f32[1,1,1,1]", TransposeConv2d((1, 1), Padding(), (1, 1))),
        _case("f32[2,5,7,3]", "f32[5,3,3,3]", TransposeConv2d((1, 1), _SAME, (5, 7)), bias=False),
        _case(
            "f32[1,5,7,13]", "f32[3,3,3,13]", TransposeConv2d((2, 2), Padding(0, 1, 0, 1), (10, 14))
        ),
        _case("f32[2,3,5,4]", "f32[8,2,2,4]", TransposeConv2d((2, 2), Padding(), (6, 10))),
        _case("f32[1,5,3,5]", "f32[7,4,4,5]", TransposeConv2d((2, 2), _SAME, (10, 6))),
        _case(
            "f32[1,3,5,5]", "f32[3,3,5,5]", TransposeConv2d((3, 2), Padding(), (11, 13)), bias=False
        ),
        _case("f32[1,3,5,3]", "f32[4,1,1,3]", TransposeConv2d((2, 3), Padding(), (6, 15))),
        Case(
            ("f32[2,3,5,5]", "f32[7,3,3,5]", "f32[7]"),
            TransposeConv2d((2, 1), _SAME, (5, 5)),
            low=-1.0,
            high=1.0,
        ),
        Case(
            ("f32[1,3,5,4]", "f32[3,2,3,4]", None),
            TransposeConv2d((2, 2), Padding(), (6, 11)),
            low=-1.0,
            high=1.0,
        ),
    ),
)
