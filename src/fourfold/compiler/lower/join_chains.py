"""m = mean(x); a = conv2d(m, ..); y = conv2d(a, ..)  ->  y = joined(x, ..), where that is faster.

A chain is a mean over the pixels, products of a few rows with constant weights, and a softmax, each
read only by the next one. Squeeze-and-excite is one, and so is the end of a classifier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fourfold.codegen.context import Target
from fourfold.compiler.lower.storage import Storage
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.ops.base.rules import Reduce
from fourfold.ops.base.window import NO_PADDING
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.kernels.chain.costs import PRODUCTS, can_chain, forms, is_heavy
from fourfold.ops.kernels.joined import Joined

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
        if len(readers) != 1 or name in graph.outputs:
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
