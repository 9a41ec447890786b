"""y = f(x); z = g(y, ..)  ->  z = f(x) |> g(..), if g is pointwise, as large as y, its only reader.

The fused node stays in f's position if all inputs of g are available there, and moves to g's
position otherwise. If two nodes could take g as their tail, the one that is computed last does. If
both have the same op, it is the one at the end of the longer chain, so that they need not wait for
each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fourfold.graph import Graph, Node, Step
from fourfold.ops.base import registry
from fourfold.ops.formula import all_terms

MAX_TAIL_STEPS = 24
MAX_TAIL_INPUTS = 16  # additional values that a tail reads


def fuse_pointwise(graph: Graph) -> Graph:
    outputs = frozenset(graph.outputs)
    order = _Order()
    for node in graph.nodes:
        fused = None
        stores = not _is_view(node) or node.outputs[0] in outputs
        if registry()[node.op].pointwise is not None and not node.tail and stores:
            candidates = [name for name in _candidates(graph, node) if name not in outputs]
            fused = _fuse_into_last(graph, node, candidates, order)
        if fused is None:
            order.append(node)
    return graph.with_nodes(tuple(order))


class _Order:
    """The nodes so far, in order, and the position at which each value is computed."""

    def __init__(self) -> None:
        self._nodes: list[Node | None] = []
        self._positions: dict[str, int] = {}
        self._depths: dict[str, int] = {}

    def append(self, node: Node) -> None:
        self._record(node, len(self._nodes))
        self._nodes.append(node)

    def _record(self, node: Node, position: int) -> None:
        depth = 1 + max((self._depths.get(name, 0) for name in node.reads), default=0)
        for name in node.outputs:
            self._positions[name], self._depths[name] = position, depth

    def last(self, names: Iterable[str]) -> list[str]:
        """Return values in the order in which their nodes should take a tail."""
        latest_first = sorted(names, key=self.position, reverse=True)
        ops = {name: node.op for name in latest_first if (node := self.producer(name)) is not None}
        alike = [
            name for name in latest_first if name in ops and ops[name] == ops.get(latest_first[0])
        ]
        alike.sort(key=self._depths.__getitem__, reverse=True)
        return [*alike, *(name for name in latest_first if name not in alike)]

    def position(self, name: str) -> int:
        """Return where a value is computed; -1 for inputs and constants."""
        return self._positions.get(name, -1)

    def producer(self, name: str) -> Node | None:
        return self._nodes[self._positions[name]] if name in self._positions else None

    def replace(self, name: str, node: Node) -> None:
        """Put `node` where `name` was computed, or at the end if it reads later values."""
        position = self._positions[name]
        if all(self.position(read) < position for read in node.reads):
            self._nodes[position] = node
            self._record(node, position)
        else:
            self._nodes[position] = None
            self.append(node)

    def drop(self, name: str) -> None:
        self._nodes[self._positions[name]] = None

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self._nodes if node is not None)


def _candidates(graph: Graph, node: Node) -> list[str]:
    """Return the inputs that no other node reads and that have the shape of the result."""
    shape = graph.types[node.outputs[0]].shape
    return [
        name
        for name in dict.fromkeys(node.inputs)
        if name is not None and graph.types[name].shape == shape and len(graph.readers[name]) == 1
    ]


def _fuse_into_last(graph: Graph, node: Node, names: list[str], order: _Order) -> Node | None:
    behind = {name: _viewed_value(graph, name, order) for name in names}
    ahead = {source: name for name, source in behind.items()}
    for source in order.last(ahead):
        name = ahead[source]
        view = order.producer(name)
        producer = order.producer(source)
        if producer is None or not _takes_tail(producer):
            continue
        inputs = tuple(None if read == name else read for read in node.inputs)
        steps = [Step(node.op, node.attributes, inputs)]
        if source != name and view is not None:
            steps.insert(0, Step(view.op, view.attributes, (None,)))
        tail = (*producer.tail, *steps)
        if fits_tail(tail):
            if source != name:
                order.drop(name)
            fused = replace(producer, outputs=node.outputs, tail=tail)
            order.replace(source, fused)
            return fused
    return None


def _is_view(node: Node) -> bool:
    """Return whether a pointwise node is also a view, which alone costs and stores nothing."""
    op = registry()[node.op]
    return op.pointwise is not None and op.view is not None


def _viewed_value(graph: Graph, name: str, order: _Order) -> str:
    """Return the value that a view shows, if it is its only reader; else the value itself."""
    node = order.producer(name)
    if node is None or node.tail or not _is_view(node):
        return name
    source = str(node.inputs[0])
    alone = len(graph.readers[source]) == 1 and not graph.is_output(source)
    return source if alone else name


def _takes_tail(node: Node) -> bool:
    """Return whether a node stores one result in a kernel; a view has no kernel for a tail."""
    return len(node.outputs) == 1 and registry()[node.op].view is None


def fits_tail(steps: Sequence[Step]) -> bool:
    """Return whether one kernel can have this many steps and inputs."""
    extras = {name for step in steps for name in step.inputs if name is not None}
    count = sum(len(all_terms(step.attributes)) or 1 for step in steps)
    return count <= MAX_TAIL_STEPS and len(extras) <= MAX_TAIL_INPUTS
