"""y[n,h,w,o] = bias[o] + sum over fh,fw,i of x[n,h*s+fh*d-p,w*s+fw*d-p,i] * weights[o,fh,fw,i]."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, require_rank, takes
from fourfold.ops.base.window import (
    NO_PADDING,
    Filter2d,
    Padding,
    check_bias,
    output_size,
    windows,
)
from fourfold.ops.kernels.conv.direct import direct_convolution
from fourfold.ops.kernels.conv.padded import PaddedBytes, PaddedInput
from fourfold.ops.kernels.conv.taps import plain_taps, window_taps
from fourfold.ops.kernels.conv.tile import CPU_VECTOR_CHANNELS
from fourfold.ops.kernels.conv.tiled import Convolution, Source, tile_choices
from fourfold.ops.kernels.matrix.convolution import (
    MatrixConvolution,
    matrix_choices,
    refuses_matrix_units,
)
from fourfold.ops.kernels.matrix.feed import WindowFeed, flatten_taps
from fourfold.ops.kernels.matrix.staged import StagedConvolution, refuses_staged, staged_choices
from fourfold.ops.kernels.matrix.warpgroup import (
    WarpgroupConvolution,
    refuses_warpgroup,
    suits_warpgroup,
    warpgroup_choices,
)
from fourfold.ops.kernels.quantized.convolution import (
    DotConvolution,
    is_in_words,
    read_words,
    refuses_dots,
)
from fourfold.ops.kernels.row_product import RowProduct, refuses_rows, row_choices
from fourfold.ops.kernels.winograd.convolution import Winograd
from fourfold.ops.kernels.winograd.forms import choose_form, suits_winograd, winograd_choices
from fourfold.types import TensorType

REFERENCE_ELEMENTS = 2**21  # input elements per matrix product of the reference, about a cache size
MAX_PADDED_COLUMNS = 128  # output columns; with more, few pixels are near an edge


@dataclass(frozen=True)
class Conv2d(Filter2d):
    """Weights are [O,H,W,I / groups]; group g reads and writes the g-th part of the channels."""

    groups: int = 1


@takes("conv2d", 2, 3)
def infer(
    attributes: Conv2d, x: TensorType, weights: TensorType, bias: TensorType | None = None
) -> Types:
    require_kind("conv2d", FLOATS, x, weights)
    require_rank("conv2d", "the input", x, 4)
    require_rank("conv2d", "weights", weights, 4)
    out, groups = weights.shape[0], attributes.groups
    divides = groups > 0 and out > 0 and out % groups == 0
    require(divides, "conv2d", f"{groups} groups do not divide {out} output channels")
    matches = x.channels == weights.channels * groups and x.channels > 0
    require(matches, "conv2d", f"{weights} in {groups} groups cannot read {x}")
    check_bias("conv2d", bias, x, out)
    image = (x.shape[1], x.shape[2])
    size = output_size("conv2d", attributes.window(weights.shape), image)
    return (x.with_shape(x.shape[0], *size, out),)


def reference(
    attributes: Conv2d, x: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    patches = windows(x, attributes.window(weights.shape))
    groups, (batch, height, width, _, *taps) = attributes.groups, patches.shape
    filters = weights.reshape(groups, len(weights) // groups, -1).transpose(0, 2, 1)
    count = max(1, REFERENCE_ELEMENTS // max(patches[:, :1].size, 1))
    y = np.empty((batch, height, width, groups, filters.shape[2]), np.result_type(x, weights))
    for first in range(0, height, count):  # all windows at once would need too much memory
        rows = patches[:, first : first + count]
        pixels = rows.shape[:3]
        split = rows.reshape(*pixels, groups, weights.shape[3], *taps)
        under = split.transpose(3, 0, 1, 2, 5, 6, 4)  # channels last, so that long runs are copied
        part = under.reshape(groups, math.prod(pixels), filters.shape[1]) @ filters
        y[:, first : first + count] = part.transpose(1, 0, 2).reshape(*pixels, *y.shape[3:])
    y = y.reshape(batch, height, width, len(weights))
    return y if bias is None else y + bias


def _is_plain(context: NodeContext) -> bool:
    """Return True if each output pixel needs only the input pixel with the same number."""
    attributes = context.attributes
    assert isinstance(attributes, Conv2d)
    size = context.input_type(1).shape[1:3]
    return size == (1, 1) and attributes.stride == (1, 1) and attributes.padding == NO_PADDING


def refuses_tiled(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, Conv2d)
    if context.array(1) is None:
        return "the weights are computed at run time"
    if (
        len(context.node.inputs) > 2
        and context.node.inputs[2] is not None
        and context.array(2) is None
    ):
        return "the bias is computed at run time"
    return None if context.attributes.groups == 1 else "grouped convolutions are not supported"


def tiled(context: NodeContext) -> None:
    attributes, weights = context.attributes, context.array(1)
    assert isinstance(attributes, Conv2d)
    assert weights is not None
    flat = weights.reshape(weights.shape[0], -1, weights.shape[3])
    if _is_plain(context):
        Convolution(context, "conv2d_1x1", flat, plain_taps).write()
    else:
        taps = window_taps(attributes.window(weights.shape))
        Convolution(context, "conv2d_tiled", flat, taps).write()


def refuses_matrix(context: NodeContext) -> str | None:
    return refuses_tiled(context) or refuses_matrix_units(context)


def _feed(context: NodeContext) -> WindowFeed:
    attributes, shape = context.attributes, context.input_type(1).shape
    assert isinstance(attributes, Conv2d)
    taps = plain_taps if _is_plain(context) else window_taps(attributes.window(shape))
    return WindowFeed(context, taps, shape[1] * shape[2])


def _on_matrix_units(context: NodeContext, convolution: type[MatrixConvolution]) -> None:
    weights = context.array(1)
    assert weights is not None
    flat = flatten_taps(weights.reshape(weights.shape[0], -1, weights.shape[3]))
    title = "conv2d_1x1" if _is_plain(context) else "conv2d"
    convolution(context, title, _feed(context), flat, context.array(2)).write()


def matrix(context: NodeContext) -> None:
    _on_matrix_units(context, MatrixConvolution)


def refuses_staged_here(context: NodeContext) -> str | None:
    return refuses_matrix(context) or refuses_staged(context)


def staged(context: NodeContext) -> None:
    _on_matrix_units(context, StagedConvolution)


def warpgroup(context: NodeContext) -> None:
    _on_matrix_units(context, WarpgroupConvolution)


def refuses_warpgroup_here(context: NodeContext) -> str | None:
    return refuses_warpgroup(context) or refuses_matrix(context)


def suits_warpgroup_here(context: NodeContext) -> bool:
    return suits_warpgroup(context, _feed(context).work)


def choose_warpgroup(context: NodeContext) -> list[str]:
    return warpgroup_choices(context, _feed(context).work)


def never(context: NodeContext) -> bool:
    """Return False: only tuning selects this variant."""
    return False


def choose_matrix(context: NodeContext) -> list[str]:
    return matrix_choices(context, _feed(context).work)


def refuses_padded(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, Conv2d)
    if not context.device.is_cpu or context.attributes.padding == NO_PADDING:
        return "the input is not padded, or padding is cheap on this device"
    return refuses_tiled(context)


def suits_padded(context: NodeContext) -> bool:
    """Return True if many pixels are near an edge and the filter has several taps."""
    rows, columns = context.input_type(1).shape[1:3]
    narrow = context.output.shape[2] <= MAX_PADDED_COLUMNS
    return rows * columns > 1 and context.input.channels >= 4 and narrow


def padded(context: NodeContext) -> None:
    attributes, weights = context.attributes, context.array(1)
    assert isinstance(attributes, Conv2d)
    assert weights is not None
    copy = PaddedInput(context, attributes.padding)
    copy.write()
    taps = window_taps(replace(attributes, padding=NO_PADDING).window(weights.shape))
    flat = weights.reshape(weights.shape[0], -1, weights.shape[3])
    Convolution(context, "conv2d_tiled", flat, taps, copy.view).write()


def refuses_winograd(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, Conv2d)
    steps = (context.attributes.stride, context.attributes.dilation)
    if context.input_type(1).shape[1:3] != (3, 3) or steps != ((1, 1), (1, 1)):
        return "Winograd needs a 3x3 filter with stride and dilation 1"
    capabilities = context.capabilities
    if not (
        capabilities.shifted_pointers
        and capabilities.private_arrays
        and CPU_VECTOR_CHANNELS in capabilities.widths
    ):
        return f"{capabilities.language} lacks shifted pointers, private arrays or vectors of eight"
    return refuses_tiled(context)


def winograd(context: NodeContext) -> None:
    attributes, weights = context.attributes, context.array(1)
    assert isinstance(attributes, Conv2d)
    assert weights is not None
    Winograd(context, choose_form(context), attributes.padding, weights).write()


def refuses_dot_products(context: NodeContext) -> str | None:
    return refuses_tiled(context) or refuses_dots(context)


def dots(context: NodeContext) -> None:
    attributes, weights = context.attributes, context.array(1)
    assert isinstance(attributes, Conv2d)
    assert weights is not None
    flat = weights.reshape(weights.shape[0], -1, weights.shape[3])
    source: Source = read_words
    if attributes.padding != NO_PADDING or not is_in_words(context):
        copy = PaddedBytes(context, attributes.padding)
        copy.write()
        source = copy.view
    plain = _is_plain(context)
    window = replace(attributes, padding=NO_PADDING).window(weights.shape)
    taps = plain_taps if plain else window_taps(window)
    title = "conv2d_1x1_dots" if plain else "conv2d_dots"
    DotConvolution(context, title, flat, taps, source).write()


def refuses_rows_here(context: NodeContext) -> str | None:
    reason = None if _is_plain(context) else "its filter has more than one tap"
    return reason or refuses_tiled(context) or refuses_rows(context)


def rows(context: NodeContext) -> None:
    weights = context.array(1)
    assert weights is not None
    RowProduct(context, "conv2d_1x1", weights[:, 0, 0], context.array(2)).write()


def tiled_choices(context: NodeContext) -> list[str]:
    rows, columns = context.input_type(1).shape[1:3]
    return tile_choices(context, rows * columns)


def direct(context: NodeContext) -> None:
    assert isinstance(context.attributes, Conv2d)
    shape = context.input_type(1).shape
    direct_convolution(context, context.attributes.window(shape), context.attributes.groups)


def _case(x: str, weights: str, attributes: Conv2d, bias: bool = True) -> Case:
    channels = weights.removeprefix("f32[").partition(",")[0]
    inputs = (x, weights, f"f32[{channels}]" if bias else None)
    return Case(inputs, attributes, constants=(1, 2) if bias else (1,), low=-1.0, high=1.0)


OP = Op(
    name="conv2d",
    attributes=Conv2d,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(
        Variant(
            "warpgroup",
            warpgroup,
            refuses_warpgroup_here,
            choose_warpgroup,
            suits_warpgroup_here,
        ),
        Variant("matrix", matrix, refuses_matrix, choose_matrix),
        Variant("staged", staged, refuses_staged_here, staged_choices, never),
        Variant("dots", dots, refuses_dot_products, tiled_choices),
        Variant("winograd", winograd, refuses_winograd, winograd_choices, suits_winograd, True),
        Variant("padded", padded, refuses_padded, tiled_choices, suits_padded, True),
        Variant("rows", rows, refuses_rows_here, row_choices),
        Variant("tiled", tiled, refuses_tiled, tiled_choices),
        Variant("direct", direct),
    ),
    cases=(
        _case("f32[1,1,1,1]", "f32[1,1,1,1]", Conv2d()),
        _case("f32[1,5,7,3]", "f32[5,1,1,3]", Conv2d()),
        _case("f32[2,5,7,13]", "f32[11,1,1,13]", Conv2d(), bias=False),
        _case("f32[2,7,11,5]", "f32[7,3,3,5]", Conv2d(padding=Padding(1, 1, 1, 1))),
        _case("f32[1,11,13,3]", "f32[8,3,3,3]", Conv2d((2, 2), padding=Padding(0, 1, 0, 1))),
        _case("f32[2,11,13,4]", "f32[16,5,3,4]", Conv2d((2, 3), padding=Padding(2, 2, 0, 1))),
        _case("f32[1,13,11,5]", "f32[3,3,3,5]", Conv2d(dilation=(2, 3))),
        _case("f32[1,7,7,6]", "f32[4,3,3,6]", Conv2d((2, 1), (2, 2), Padding(2, 2, 2, 2))),
        _case("f32[2,5,7,6]", "f32[9,3,3,2]", Conv2d(padding=Padding(1, 1, 1, 1), groups=3)),
        _case("f32[1,5,7,8]", "f32[16,1,1,4]", Conv2d(groups=2), bias=False),
        _case("f32[3,1,17,5]", "f32[7,1,5,5]", Conv2d(padding=Padding(0, 0, 2, 2))),
        _case("f32[1,2,3,5]", "f32[3,5,7,5]", Conv2d(padding=Padding(2, 2, 3, 3))),
        _case("f32[2,1,1,317]", "f32[13,1,1,317]", Conv2d()),
        # The pixels do not fill the last work-group of a GPU.
        _case("f32[1,8,23,16]", "f32[32,1,1,16]", Conv2d()),
        # Multiples of sixteen inputs, as matrix units take them.
        _case("f32[1,5,7,16]", "f32[20,1,1,16]", Conv2d()),
        _case("f32[2,7,5,48]", "f32[8,3,3,48]", Conv2d((2, 1), padding=Padding(1, 1, 0, 1))),
        _case("f32[1,13,11,32]", "f32[37,3,3,32]", Conv2d(dilation=(2, 1)), bias=False),
        _case("f32[1,3,2,208]", "f32[72,1,1,208]", Conv2d()),
    ),
)
