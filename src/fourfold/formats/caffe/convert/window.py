"""Layers with a sliding window: convolutions, pooling, local response normalization."""

from __future__ import annotations

from fourfold.formats.axes import check_window, give_channels_first
from fourfold.formats.caffe.operation import Operation, converts
from fourfold.formats.caffe.record import Record
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.windows import Deconvolution, add_pool, convolve, count_windows, deconvolve
from fourfold.ops.base.rules import Reduce
from fourfold.ops.base.window import Padding, Pair, PoolAxes
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.local_response import LocalResponse


def _pair(settings: Record, name: str, axis: str, default: int) -> Pair:
    """Read a setting for height and width: two values, one for both, or one each by name."""
    if settings.has(f"{axis}_h") or settings.has(f"{axis}_w"):
        return settings.integer(f"{axis}_h", default), settings.integer(f"{axis}_w", default)
    values = settings.integers(name)
    if len(values) > 2:
        raise Unconvertible(f"its {name} has {len(values)} values, images need two")
    return (values[0], values[-1]) if values else (default, default)


def _both_sides(pad: Pair) -> Padding:
    return Padding(pad[0], pad[0], pad[1], pad[1])


def _geometry(op: Operation, settings: Record) -> tuple[Pair, Pair, Padding]:
    """Return stride, dilation and padding of a convolution."""
    if op.axis(settings.integer("axis", 1)) != 1:
        raise Unconvertible("its channels are not the second axis")
    stride = _pair(settings, "stride", "stride", 1)
    dilation = _pair(settings, "dilation", "dilation", 1)
    return stride, dilation, _both_sides(_pair(settings, "pad", "pad", 0))


def _weights(op: Operation, settings: Record, turned: bool) -> tuple[str, str | None]:
    """Return the bias and weights [O,I / groups,H,W]; with `turned`, weights [I,O / groups,H,W]."""
    outputs, groups = settings.integer("num_output"), settings.integer("group", 1)
    filter = _pair(settings, "kernel_size", "kernel", 0)
    check_window(outputs, groups, *filter)
    channels = op.input_type().shape[1]
    shape = (channels, outputs // groups) if turned else (outputs, channels // groups)
    weights = op.add_constant(op.parameter(0, "weights", (*shape, *filter)), "weights")
    if not settings.flag("bias_term", True):
        return weights, None
    return weights, op.add_constant(op.parameter(1, "bias", (outputs,)), "bias")


@converts("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution")
def convolution(op: Operation) -> None:
    """conv2d, or depthwise_conv2d if every channel is a group."""
    op.single()
    settings, image = op.settings("convolution_param"), op.image()
    if op.layer.type != "Convolution":  # forks of Caffe have these types without the group setting
        settings = settings.where(group=[op.input_type().shape[1]])
    stride, dilation, padding = _geometry(op, settings)
    attributes = Conv2d(stride, dilation, padding, settings.integer("group", 1))
    give_channels_first(op, convolve(op, image, *_weights(op, settings, False), attributes))


@converts("Deconvolution")
def deconvolution(op: Operation) -> None:
    """transpose_conv2d; narrow groups are merged."""
    op.single()
    settings, image = op.settings("convolution_param"), op.image()
    stride, dilation, padding = _geometry(op, settings)
    attributes = Deconvolution(stride, dilation, padding, settings.integer("group", 1))
    give_channels_first(op, deconvolve(op, image, *_weights(op, settings, True), attributes))


@converts("Pooling")
def pooling(op: Operation) -> None:
    """max_pool2d or average_pool2d; the last windows may extend past the image."""
    op.single()
    settings, image = op.settings("pooling_param"), op.image()
    kind = settings.text("pool", "MAX")
    if kind not in ("MAX", "AVE"):
        raise Unconvertible(f"pooling with {kind} is not supported")
    if settings.flag("global_pooling"):
        spatial = Reduce((1, 2), keep_dims=True)
        name = "reduce_max" if kind == "MAX" else "mean"
        give_channels_first(op, op.add(name, image, attributes=spatial, part="pool"))
        return
    pool = _pool(settings, op.type_of(image).shape[1:3])
    give_channels_first(op, add_pool(op, image, pool, kind == "AVE", counts_padding=True))


def _pool(settings: Record, image: tuple[int, ...]) -> PoolAxes:
    filter = _pair(settings, "kernel_size", "kernel", 0)
    stride = _pair(settings, "stride", "stride", 1)
    pad = _pair(settings, "pad", "pad", 0)
    check_window(*filter, *stride)
    up = settings.text("round_mode", "CEIL") == "CEIL" and settings.flag("ceil_mode", True)
    size = tuple(
        count_windows(image[i], filter[i], stride[i], (pad[i], pad[i]), up) for i in (0, 1)
    )
    return PoolAxes(filter, stride, (1, 1), pad, pad, size)


@converts("LRN")
def local_response_normalization(op: Operation) -> None:
    """local_response across channels; within a channel, average_pool2d of squares."""
    settings = op.settings("lrn_param")
    size, alpha, beta = (
        settings.integer("local_size", 5),
        settings.number("alpha", 1.0),
        settings.number("beta", 0.75),
    )
    check_window(size)
    if size % 2 == 0:
        raise ValueError(f"its local_size is {size}, and must be odd")
    image = op.image()
    if settings.text("norm_region", "ACROSS_CHANNELS") == "ACROSS_CHANNELS":
        attributes = LocalResponse(size // 2, settings.number("k", 1.0), alpha / size, beta)
        give_channels_first(op, op.add("local_response", image, attributes=attributes, part="y"))
        return
    around, ones = (size // 2, size // 2), (1, 1)
    inner = op.type_of(image).shape[1:3]
    pool = PoolAxes((size, size), ones, ones, around, around, inner)
    mean = add_pool(op, op.add("square", image, part="squares"), pool, True, counts_padding=True)
    scaled = op.add("mul", mean, op.scalar(alpha, image, "alpha"), part="scaled")
    base = op.add("add", scaled, op.scalar(1.0, image, "one"), part="base")
    factor = op.add("power", base, op.scalar(-beta, image, "beta"), part="factor")
    give_channels_first(op, op.add("mul", image, factor, part="y"))
