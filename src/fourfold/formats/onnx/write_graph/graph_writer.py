"""GraphWriter: builds an ONNX graph, with its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fourfold.formats.onnx.write_graph.operator_list import Port, element_of
from fourfold.formats.onnx.write_graph.written_values import WrittenValues, identity
from fourfold.formats.rule_table import register
from fourfold.formats.writable import WritableModel
from fourfold.graph import Node
from fourfold.ops.base.axis_orders import Order
from fourfold.types import OPEN, Shape


@dataclass(frozen=True)
class FlatImage:
    """The rows of a flattened image whose elements are in the image's memory order.

    `shape` and `order` are those of the image; readers of `tensor` must reorder their weights.
    """

    tensor: str
    shape: Shape
    order: Order

    def reordered(self, weights: np.ndarray) -> np.ndarray:
        """Return weights with columns in the order of the elements of a row."""
        parts = weights.reshape(-1, *self.shape[1:])
        return np.ascontiguousarray(parts.transpose(self.order).reshape(weights.shape))


class GraphWriter(WrittenValues):
    """The writer that rules add nodes to; inputs and outputs have the model's names and sizes."""

    def __init__(self, model: WritableModel) -> None:
        super().__init__(model)
        self.model = model
        self.reserve((*model.input_names, *model.output_names))
        self.flattened: dict[str, FlatImage] = {}  # values whose elements are in another order
        self.inputs = [self._input(*pair) for pair in self._arguments()]
        for name in self.graph.states:
            self.assume(name)

    def start(self, node: Node) -> None:
        """Begin a node: operators added from now on belong to it."""
        self.title = node.outputs[0]

    def read_weights(self, name: str, rows: FlatImage) -> str:
        """Return weights for the rows of a flattened image."""
        return self._kept(name, rows.reordered(self.graph.constants[name]), identity(2))

    def finish(self) -> list[Port]:
        """Name the outputs and return them."""
        pairs = zip(self.model.graph.results, self.model.output_names, strict=True)
        return [self._output(value, name) for value, name in pairs]

    def _arguments(self) -> Iterable[tuple[str, str, Shape]]:
        sizes = self.model.open_sizes or ((),) * len(self.graph.arguments)
        return zip(self.graph.arguments, self.model.input_names, sizes, strict=True)

    def _input(self, value: str, name: str, sizes: Shape) -> Port:
        type_, stored = self.type(value), self.stored.get(value)
        self._enter(value, name)
        dtype = type_.dtype if stored is None else stored.dtype
        return Port(name, element_of(dtype), sizes or type_.shape)

    def _output(self, value: str, name: str) -> Port:
        type_, stored = self.type(value), self.stored.get(value)
        self.title = name
        tensor = self.read(value)
        dtype = type_.dtype
        if stored is not None:
            dtype = stored.dtype
            tensor = self._stored_tensor(value)
        is_computed = any(tensor in node.outputs for node in self.nodes)
        if not is_computed or self.names.get(tensor) in self.model.output_names:
            tensor = self.add("Identity", tensor)
        self.names[tensor] = name
        return Port(name, element_of(dtype), self._left_open(type_.shape))

    def _left_open(self, shape: Shape) -> Shape:
        """Return the sizes of an output; all are dynamic if more than the batch is."""
        if any(OPEN in sizes[1:] for sizes in self.model.open_sizes):
            return (OPEN,) * len(shape)
        return (OPEN, *shape[1:]) if self.open_batch and shape else shape


Write = Callable[[GraphWriter, Node], None]

RULES: dict[str, Write] = {}


def writes(*ops: str) -> Callable[[Write], Write]:
    """Register a function for ops; its docstring is shown to users.

    It raises Unconvertible with a reason if ONNX cannot express a node.
    """
    return register(RULES, ops)
