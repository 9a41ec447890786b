"""m = depthwise_conv2d(x) |> clamp; y = conv2d(m), 1x1  ->  y = separable_conv2d(x).

With matrix units, repeating a depthwise filter can cost less than writing its result and waiting
for it. That holds for few channels and many pixels; otherwise the two stay separate.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fourfold.codegen.context import Target
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.ops.base.window import NO_PADDING, Window
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.kernels.matrix.depthwise_feed import filter_work
from fourfold.ops.kernels.matrix.tile import MatrixWork, clocks
from fourfold.ops.separable_conv2d import SeparableConv2d

CLAMPS = {
    "relu": (0.0, inf),
    "relu6": (0.0, 6.0),
    "relu_0_to_1": (0.0, 1.0),
    "relu_n1_to_1": (-1.0, 1.0),
}
MAX_TAPS = 9
TRANSITION = 2300.0  # clocks from one stage to the next, on an H200


def join_separable(graph: Graph, target: Target) -> Graph:
    """Return the graph with pairs of layers joined where that is faster."""
    device, options = target.device, target.options
    if not device.matrix_units or options.precision != "mixed":
        return graph
    joined: dict[str, Node] = {}
    gone: set[str] = set()
    for node in graph.nodes:
        filter_ = graph.producers.get(str(node.inputs[0])) if node.inputs else None
        if (
            filter_ is not None
            and _can_join(graph, filter_, node)
            and _is_faster(graph, filter_, node, device, options.keeps_values)
        ):
            joined[node.outputs[0]] = _joined(filter_, node)
            gone.add(filter_.outputs[0])
    kept = (node for node in graph.nodes if node.outputs[0] not in gone)
    return graph.with_nodes(tuple(joined.get(node.outputs[0], node) for node in kept))


def _can_join(graph: Graph, filter_: Node, node: Node) -> bool:
    before, after = filter_.attributes, node.attributes
    if not isinstance(before, DepthwiseConv2d) or not isinstance(after, Conv2d):
        return False
    middle, weights = filter_.outputs[0], graph.types[str(node.inputs[1])]
    taps = graph.types[str(filter_.inputs[1])].shape[1:3]
    point = weights.shape[1:3] == (1, 1) and after.groups == 1 and after.stride == (1, 1)
    alone = graph.readers[middle] == (node,) and middle not in graph.outputs
    constants = [name for name in (*filter_.inputs[1:], *node.inputs[1:]) if name is not None]
    steps = graph.types[middle].slices % 4 == 0 and graph.types[node.outputs[0]].pixels > 1
    return (
        point
        and after.padding == NO_PADDING
        and before.multiplier == 1
        and taps[0] * taps[1] <= MAX_TAPS
        and alone
        and steps
        and all(graph.is_constant(name) for name in constants)
        and len(filter_.tail) <= 1
        and all(step.op in CLAMPS for step in filter_.tail)
        and all(middle not in step.inputs for step in node.tail)
    )


def _is_faster(graph: Graph, filter_: Node, node: Node, device: DeviceInfo, wide: bool) -> bool:
    """Return whether one kernel takes fewer clocks than two and the transition between them."""
    source, output = graph.types[str(node.inputs[0])], graph.types[node.outputs[0]]
    before, size = filter_.attributes, graph.types[str(filter_.inputs[1])].shape[1:3]
    assert isinstance(before, DepthwiseConv2d)
    window = Window((size[0], size[1]), before.stride, before.padding, before.dilation)
    point = MatrixWork(output.pixels, output.channels, source.slices // 4, wide=wide)
    combined = filter_work(source.slices // 4, output, window, wide)
    alone = 1500.0 + 0.028 * output.pixels * source.slices
    return clocks(device, combined) < clocks(device, point) + alone + TRANSITION


def _joined(filter_: Node, node: Node) -> Node:
    before = filter_.attributes
    assert isinstance(before, DepthwiseConv2d)
    low, high = CLAMPS[filter_.tail[0].op] if filter_.tail else (-inf, inf)
    attributes = SeparableConv2d(before.stride, before.dilation, before.padding, low, high)
    offsets = filter_.inputs[2] if len(filter_.inputs) > 2 else None
    inputs = (*filter_.inputs[:2], node.inputs[1], offsets, *node.inputs[2:])
    return replace(node, op="separable_conv2d", inputs=inputs, attributes=attributes)
