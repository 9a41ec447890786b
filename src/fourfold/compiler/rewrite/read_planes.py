"""input x: f32[1,3,9,9]; y = transpose(x)  ->  y = planes_to_pixels(x), if channels come last in y.

Readers of y can then read x directly, whereas a transpose needs a kernel. The same applies to
values computed from inputs point by point, as when images are scaled or quantized: y =
transpose(exp(x)) becomes y = exp(planes_to_pixels(x)). For several images, or more channels than a
kernel reads at once, a transpose pays off if readers use a pixel many times and are written for
adjacent channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.compiler.rewrite._axes import permute_constant
from fourfold.compiler.rewrite._names import PassConstants
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.base.axis_orders import Order, permuted
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape

SLICE = 4  # channels that kernels read at once
MOVES = ("concat", "pad")  # ops that read each element once
MAX_DEPTH = 64  # pointwise nodes between an input and a transpose; models have a few of them


def read_planes(graph: Graph) -> Graph:
    reading = _Reading(graph)
    for node in graph.nodes:
        reading.add(node)
    return reading.constants.apply(reading.nodes)


class _Reading:
    """The nodes so far, and the values computed from inputs that are stored as planes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = PassConstants(graph)
        self.nodes: list[Node] = []
        self.pixels: dict[str, str] = {}  # values with channels last
        self.inputs = frozenset(graph.inputs)
        self.depths = self._pointwise_depths()

    def add(self, node: Node) -> None:
        """Add a node, or replace it if it is a transpose of planes."""
        source = str(node.inputs[0]) if node.inputs else ""
        if not _brings_channels_last(node):
            self.nodes.append(node)
        elif source in self.inputs and self._suits(source, node.outputs[0]):
            self.nodes.append(replace(node, op="planes_to_pixels", attributes=NONE))
        elif self.depths.get(source, 0):
            self._add_with_channels_last(
                self.graph.producers[source], _order(node), node.outputs[0]
            )
        else:
            self.nodes.append(node)

    def _suits(self, source: str, result: str) -> bool:
        images, channels = self.graph.types[source].shape[:2]
        few = images == 1 and channels < SLICE
        return few or all(map(_takes_planes, self.graph.readers.get(result, ())))

    def _pointwise_depths(self) -> dict[str, int]:
        """Return how many pointwise nodes are between inputs and each value that is computed only
        from inputs of its own shape and constants; inputs have none.
        """
        depths = dict.fromkeys(self.inputs, 0)
        for node in self.graph.nodes:
            if registry()[node.op].pointwise is None or node.tail or len(node.outputs) != 1:
                continue
            shape = self.graph.types[node.outputs[0]].shape
            parts = [name for name in node.reads if name not in self.graph.constants]
            if parts and all(self._is_part(name, shape, depths) for name in parts):
                depths[node.outputs[0]] = 1 + max(depths[name] for name in parts)
        return depths

    def _is_part(self, name: str, shape: Shape, depths: Mapping[str, int]) -> bool:
        is_shallow = depths.get(name, MAX_DEPTH) < MAX_DEPTH
        return is_shallow and self.graph.types[name].shape == shape

    def _add_with_channels_last(self, node: Node, order: Order, result: str) -> None:
        """Add a pointwise node of values with channels last."""
        inputs = tuple(name and self._with_channels_last(name, order) for name in node.inputs)
        self.nodes.append(replace(node, inputs=inputs, outputs=(result,)))

    def _with_channels_last(self, name: str, order: Order) -> str:
        """Return a value or constant with its channels last."""
        if name not in self.pixels:
            self.pixels[name] = self._compute_with_channels_last(name, order)
        return self.pixels[name]

    def _compute_with_channels_last(self, name: str, order: Order) -> str:
        array, type_ = self.graph.constants.get(name), self.graph.types[name]
        if array is not None and array.size == 1:
            return name
        if array is not None:
            return self.constants.add(f"{name}/pixels", permute_constant(array, order))
        turned = type_.with_shape(*permuted(type_.shape, order))
        result = self.constants.declare(f"{name}/pixels", turned)
        if name in self.inputs:
            self.nodes.append(Node("planes_to_pixels", (name,), (result,), name=name))
        else:
            self._add_with_channels_last(self.graph.producers[name], order, result)
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
    """Return whether a node reads any number of planes as fast as pixels."""
    if isinstance(reader.attributes, Conv2d):
        return reader.attributes.groups == 1
    return reader.op in MOVES or registry()[reader.op].pointwise is not None
