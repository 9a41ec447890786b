"""input x: f32[1,3,9,9]; y = transpose(x)  ->  y = planes_to_pixels(x), if channels come last in y.

Who reads y can then read x itself: a transpose has a kernel of its own. So for what is computed
from inputs point by point, as images are scaled or quantised: y = transpose(exp(x)) becomes
y = exp(planes_to_pixels(x)). Several images, and more channels than a kernel reads at once, are
worth a transpose where readers look at a pixel many times and are written for channels that lie
together.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import NONE, Graph, Node
from fourfold.op.axis_orders import Order, permuted
from fourfold.op.registry import registry
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.transpose import Transpose
from fourfold.rewrite._axes import moved_constant
from fourfold.rewrite._names import PassConstants
from fourfold.types import Shape

SLICE = 4  # channels that kernels read at once
MOVES = ("concat", "pad")  # that look at each element once


def read_planes(graph: Graph) -> Graph:
    reading = _Reading(graph)
    for node in graph.nodes:
        reading.take(node)
    return reading.constants.apply(reading.nodes)


class _Reading:
    """The nodes so far, and what was made of inputs that come as planes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = PassConstants(graph)
        self.nodes: list[Node] = []
        self.pixels: dict[str, str] = {}  # what has its channels last now

    def take(self, node: Node) -> None:
        """A node as it is, or without the transpose that it is."""
        source = str(node.inputs[0]) if node.inputs else ""
        if not _brings_channels_last(node):
            self.nodes.append(node)
        elif source in self.graph.inputs and self._suits(source, node.outputs[0]):
            self.nodes.append(replace(node, op="planes_to_pixels", attributes=NONE))
        elif source in self.graph.producers and self._is_pointwise(source):
            self._turn(self.graph.producers[source], _order(node), node.outputs[0])
        else:
            self.nodes.append(node)

    def _suits(self, source: str, result: str) -> bool:
        images, channels = self.graph.types[source].shape[:2]
        few = images == 1 and channels < SLICE
        return few or all(map(_takes_planes, self.graph.readers.get(result, ())))

    def _is_pointwise(self, name: str) -> bool:
        """Whether a value is computed from inputs of its own shape, and constants, alone."""
        shape, node = self.graph.types[name].shape, self.graph.producers[name]
        if registry()[node.op].pointwise is None or node.tail:
            return False
        computed = any(part not in self.graph.constants for part in node.reads)
        return computed and all(self._is_part(part, shape) for part in node.reads)

    def _is_part(self, name: str, shape: Shape) -> bool:
        if name in self.graph.constants:
            return True
        if self.graph.types[name].shape != shape:
            return False
        return name in self.graph.inputs or self._is_pointwise(name)

    def _turn(self, node: Node, order: Order, result: str) -> None:
        """A pointwise node of what has its channels last."""
        inputs = tuple(name and self._turned(name, order) for name in node.inputs)
        self.nodes.append(replace(node, inputs=inputs, outputs=(result,)))

    def _turned(self, name: str, order: Order) -> str:
        """A value, or a constant, with its channels last."""
        if name not in self.pixels:
            self.pixels[name] = self._make(name, order)
        return self.pixels[name]

    def _make(self, name: str, order: Order) -> str:
        array, type_ = self.graph.constants.get(name), self.graph.types[name]
        if array is not None and array.size == 1:
            return name
        if array is not None:
            return self.constants.add(f"{name}/pixels", moved_constant(array, order))
        turned = type_.with_shape(*permuted(type_.shape, order))
        result = self.constants.declare(f"{name}/pixels", turned)
        if name in self.graph.inputs:
            self.nodes.append(Node("planes_to_pixels", (name,), (result,), name=name))
        else:
            self._turn(self.graph.producers[name], order, result)
        return result


def _order(node: Node) -> Order:
    assert isinstance(node.attributes, Transpose)
    return node.attributes.permutation


def _brings_channels_last(node: Node) -> bool:
    if not isinstance(node.attributes, Transpose) or node.tail:
        return False
    order = node.attributes.permutation
    return len(order) > 2 and order == (0, *range(2, len(order)), 1)


def _takes_planes(reader: Node) -> bool:
    """Whether a node reads planes, however many, as fast as it reads pixels."""
    if isinstance(reader.attributes, Conv2d):
        return reader.attributes.groups == 1
    return reader.op in MOVES or registry()[reader.op].pointwise is not None
