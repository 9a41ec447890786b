"""Joins nodes into one where that is faster: chains of small nodes, and separable convolutions.

m = mean(x); a = conv2d(m, ..); y = conv2d(a, ..)  ->  y = joined(x, ..)
m = depthwise_conv2d(x) |> clamp; y = conv2d(m), 1x1  ->  y = separable_conv2d(x)

A chain is a mean over the pixels, products of a few rows with constant weights, and a softmax, each
read only by the next one. Squeeze-and-excite is one, and so is the end of a classifier.

With matrix units, repeating a depthwise filter can cost less than writing its result and waiting
for it. That holds for few channels and many pixels; otherwise the two stay separate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from fourfold.codegen.context import Target
from fourfold.compiler.lower.storage import Storage
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.ops.base.rules import Reduce
from fourfold.ops.base.window import NO_PADDING, Window
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.kernels.chain import PRODUCTS, can_chain, forms, is_heavy
from fourfold.ops.kernels.joined import Joined
from fourfold.ops.kernels.matrix.depthwise_feed import filter_work
from fourfold.ops.kernels.matrix.tile import MatrixWork, clocks
from fourfold.ops.separable_conv2d import SeparableConv2d

MAX_ROWS = 8


def join_chains(graph: Graph, target: Target) -> Graph:
    """Return the graph with chains of small nodes joined into one node where that is faster.

    With byte products, nodes stay separate: they read a quarter of the data of a chain.
    """
    device, options = target.device, target.options
    if options.counts_bytes or not can_chain(target):
        return graph
    storage = Storage(graph, options)
    joined: dict[str, Node] = {}
    gone: set[str] = set()
    for node in graph.nodes:
        if gone.intersection(node.outputs) or node.outputs[0] in joined:
            continue
        chain = _chain(graph, node, device)
        if chain and forms(chain, graph.types, device)[0] < len(chain):
            joined[chain[-1].outputs[0]] = _joined(chain, storage)
            gone.update(part.outputs[0] for part in chain[:-1])
    kept = (node for node in graph.nodes if not gone.intersection(node.outputs))
    return graph.with_nodes(tuple(joined.get(node.outputs[0], node) for node in kept))


def _chain(graph: Graph, first: Node, device: DeviceInfo) -> list[Node]:
    """Return the longest chain that begins with a node; empty if it would be a single kernel."""
    chain = [first]
    if not (_is_mean(graph, first) or _is_product(graph, first)):
        return []
    if is_heavy(first, graph.types, device):
        return []
    for node in _followers(graph, first):
        if is_heavy(node, graph.types, device):
            break
        chain.append(node)
    while chain[-1].op == "reshape":
        chain.pop()
    return chain if sum(node.op != "reshape" for node in chain) > 1 else []


def _followers(graph: Graph, node: Node) -> Iterator[Node]:
    """Yield the nodes that continue a chain, while each is the only reader of the one before it."""
    while node.op != "softmax" and _has_constant_tail(graph, node):
        name = node.outputs[0]
        readers = graph.readers.get(name, ())
        if len(readers) != 1 or graph.is_output(name):
            return
        before, (node,) = node, readers
        other_inputs = [*node.inputs[1:], *(other for step in node.tail for other in step.inputs)]
        fits = _is_view(graph, node) or _is_product(graph, node) or _is_softmax(before, node)
        if node.inputs[0] != name or name in other_inputs or not fits:
            return
        yield node


def _has_constant_tail(graph: Graph, node: Node) -> bool:
    """Return whether the tail reads only scalars and per-channel constants."""
    others = [name for step in node.tail for name in step.inputs if name is not None]
    return all(graph.is_constant(name) and graph.types[name].pixels == 1 for name in others)


def _is_mean(graph: Graph, node: Node) -> bool:
    attributes = node.attributes
    if node.op != "mean" or not isinstance(attributes, Reduce):
        return False
    x = graph.types[str(node.inputs[0])]
    pixels = tuple(range(1, x.rank - 1))
    return bool(pixels) and attributes.axes == pixels and x.shape[0] <= MAX_ROWS


def _is_product(graph: Graph, node: Node) -> bool:
    attributes = node.attributes
    if node.op not in PRODUCTS or not all(
        graph.is_constant(name) for name in node.inputs[1:] if name is not None
    ):
        return False
    point = not isinstance(attributes, Conv2d) or (
        graph.types[str(node.inputs[1])].shape[1:3] == (1, 1)
        and (attributes.stride, attributes.groups) == ((1, 1), 1)
        and attributes.padding == NO_PADDING
    )
    return point and graph.types[node.outputs[0]].pixels <= MAX_ROWS


def _is_softmax(before: Node, node: Node) -> bool:
    return node.op == "softmax" and before.op in (*PRODUCTS, "reshape")


def _is_view(graph: Graph, node: Node) -> bool:
    """Return whether a node keeps the channels and moves no data."""
    if node.op != "reshape" or node.tail:
        return False
    return graph.types[str(node.inputs[0])].channels == graph.types[node.outputs[0]].channels


def _joined(chain: list[Node], storage: Storage) -> Node:
    """Return the chain as one node; its values get names that do not depend on the model."""
    *inner, last = chain
    bare = [*inner, replace(last, tail=())]
    inner_names = {node.outputs[0]: f"v{number}" for number, node in enumerate(bare)}
    outer_values = [name for node in bare for name in node.reads if name not in inner_names]
    inputs = tuple(dict.fromkeys(outer_values))
    names = inner_names | {name: str(number) for number, name in enumerate(inputs)}
    parts = (replace(node, name="").renamed(names) for node in bare)
    stored = tuple(storage.of(node.outputs[0]) for node in inner)
    return replace(last, op="joined", inputs=inputs, attributes=Joined(tuple(parts), stored))


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
            joined[node.outputs[0]] = _joined_pair(filter_, node)
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
    alone = graph.readers[middle] == (node,) and not graph.is_output(middle)
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


def _joined_pair(filter_: Node, node: Node) -> Node:
    before = filter_.attributes
    assert isinstance(before, DepthwiseConv2d)
    low, high = CLAMPS[filter_.tail[0].op] if filter_.tail else (-inf, inf)
    attributes = SeparableConv2d(before.stride, before.dilation, before.padding, low, high)
    offsets = filter_.inputs[2] if len(filter_.inputs) > 2 else None
    inputs = (*filter_.inputs[:2], node.inputs[1], offsets, *node.inputs[2:])
    return replace(node, op="separable_conv2d", inputs=inputs, attributes=attributes)
