"""Direct convolutions, one output channel at a time, for groups and for weights computed at run
time.
"""

from __future__ import annotations

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, guarded, vector
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.view import View
from fourfold.ops.base.window import Pair, Window
from fourfold.ops.kernels.grid import plain_grid


def direct_convolution(context: NodeContext, window: Window, groups: int) -> None:
    """Write a convolution in which each lane walks the window over its own group."""
    kernel = context.kernel("conv2d_direct")
    source, weights = context.read(kernel, 0), context.read(kernel, 1, "weights")
    bias = _bias(context, kernel)
    target = context.write(kernel)
    per_group = context.output.channels // groups
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, y, x = target.coordinates(pixel)
        top = kernel.let(y * window.stride[0] - window.padding.top, "top")
        left = kernel.let(x * window.stride[1] - window.padding.left, "left")
        lanes = []
        for lane in range(min(4, context.output.channels)):
            channel = _channel(kernel, target, slice_, lane)
            total = _start(kernel, bias, channel)
            first = kernel.let(channel // per_group * weights.type.channels, "first")
            with (
                kernel.loop(kernel.size("rows", window.filter[0]), title="row") as row,
                kernel.loop(kernel.size("columns", window.filter[1]), title="column") as column,
            ):
                at_y = kernel.let(top + row * window.dilation[0], "y")
                at_x = kernel.let(left + column * window.dilation[1], "x")
                inside = (
                    (at_y >= 0) & (at_y < source.axis(1)) & (at_x >= 0) & (at_x < source.axis(2))
                )
                source_pixel = kernel.let(source.pixel([image, at_y, at_x]), "from")
                tap = kernel.let(weights.pixel([channel, row, column]), "tap")
                with kernel.when(inside), kernel.loop(weights.channels, title="i") as i:
                    kernel.add(
                        total, source.element(source_pixel, first + i) * weights.element(tap, i)
                    )
            lanes.append(total)
        target.store(pixel, slice_, _pad_lanes(lanes, kernel))


def direct_transposed(context: NodeContext, stride: Pair, before: Pair) -> None:
    """Write a transposed convolution in which each lane gathers its inputs.

    A tap contributes if the stride divides its distance.
    """
    kernel = context.kernel("transpose_conv2d_direct")
    source, weights = context.read(kernel, 0), context.read(kernel, 1, "weights")
    bias = _bias(context, kernel)
    target = context.write(kernel)
    rows, columns = weights.type.shape[1:3]
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, y, x = target.coordinates(pixel)
        channels = [
            _channel(kernel, target, slice_, n) for n in range(min(4, context.output.channels))
        ]
        lanes = [_start(kernel, bias, channel) for channel in channels]
        with (
            kernel.loop(kernel.size("rows", rows), title="row") as row,
            kernel.loop(kernel.size("columns", columns), title="column") as column,
        ):
            down, across = (
                kernel.let(at + pad - tap, "way")
                for at, pad, tap in zip((y, x), before, (row, column), strict=True)
            )
            inside = (down >= 0) & (across >= 0)
            inside = inside & (down % stride[0]).equals(0) & (across % stride[1]).equals(0)
            inside = inside & (down // stride[0] < source.axis(1))
            inside = inside & (across // stride[1] < source.axis(2))
            with kernel.when(inside), kernel.loop(weights.channels, title="i") as i:
                at = [image, down // stride[0], across // stride[1]]
                value = kernel.let(source.element(source.pixel(at), i), "value")
                for channel, total in zip(channels, lanes, strict=True):
                    tap = weights.pixel([channel, row, column])
                    kernel.add(total, value * weights.element(tap, i))
        target.store(pixel, slice_, _pad_lanes(lanes, kernel))


def direct_product(context: NodeContext) -> None:
    """Write y = x times weights, with the weights in their original layout."""
    kernel = context.kernel("fully_connected_direct")
    source, weights = context.read(kernel, 0), context.read(kernel, 1, "weights")
    bias = _bias(context, kernel)
    target = context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        lanes = []
        for lane in range(min(4, context.output.channels)):
            channel = _channel(kernel, target, slice_, lane)
            total = _start(kernel, bias, channel)
            with kernel.loop(source.channels, title="i") as i:
                kernel.add(total, source.element(pixel, i) * weights.element(channel, i))
            lanes.append(total)
        target.store(pixel, slice_, _pad_lanes(lanes, kernel))


def _bias(context: NodeContext, kernel: Kernel) -> View | None:
    has_bias = len(context.node.inputs) > 2 and context.node.inputs[2] is not None
    return context.read(kernel, 2, "bias") if has_bias else None


def _channel(kernel: Kernel, target: View, slice_: Expression, lane: int) -> Expression:
    """Return the channel of a lane. Lanes beyond the last read channel 0 and are not stored."""
    channel = kernel.let(slice_ * 4 + lane, "channel")
    if target.type.channels % 4 == 0 or target.type.channels < 4:
        return channel
    return kernel.let(guarded(channel < target.channels, channel), "channel")


def _start(kernel: Kernel, bias: View | None, channel: Expression) -> Variable:
    start = const(0.0, kernel.real) if bias is None else bias.element(0, channel)
    return kernel.variable(start, "total")


def _pad_lanes(lanes: list[Variable], kernel: Kernel) -> Expression:
    padding = [const(0.0, kernel.real)] * (4 - len(lanes))
    return vector(*lanes, *padding)
