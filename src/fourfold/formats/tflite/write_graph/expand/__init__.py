"""Expands ops without a TFLite operator into several supported ops, discovered by scanning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

import numpy as np

from fourfold.formats.names import UniqueNames
from fourfold.formats.rule_table import load_rules
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.cast import Cast
from fourfold.ops.reshape import Reshape
from fourfold.ops.tile import Tile
from fourfold.types import DType, Shape, TensorType

T = TypeVar("T")
Inputs = Sequence[str | None]


@dataclass
class Expansion:
    """The argument of an expanding function.

    Types are inferred with the rules of the ops.
    """

    node: Node
    types: dict[str, TensorType]
    constants: dict[str, np.ndarray]
    names: UniqueNames
    nodes: list[Node] = field(default_factory=list)

    def attributes(self, kind: type[T]) -> T:
        assert isinstance(self.node.attributes, kind)
        return self.node.attributes

    def input(self, index: int) -> str:
        name = self.node.inputs[index]
        assert name is not None
        return name

    def optional(self, index: int) -> str | None:
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def type(self, value: str) -> TensorType:
        return self.types[value]

    def constant(self, array: np.ndarray, part: str) -> str:
        name = self.names.fresh(f"{self.node.outputs[0]}/{part}")
        self.constants[name] = array
        self.types[name] = TensorType.of(array)
        return name

    def number(self, value: float, like: str) -> str:
        """Add a scalar with the element type of another value."""
        return self.constant(np.array(value, self.type(like).dtype.numpy), "number")

    def add(self, op: str, *inputs: str | None, attributes: object = NONE) -> str:
        """Add a node for an intermediate result."""
        return self._add(op, inputs, attributes, self.names.fresh(f"{self.node.outputs[0]}/{op}"))

    def give(self, op: str, *inputs: str | None, attributes: object = NONE) -> bool:
        """Add the node that writes the result; return True, since the expansion was possible."""
        self._add(op, inputs, attributes, self.node.outputs[0])
        return True

    def _add(self, op: str, inputs: Inputs, attributes: object, output: str) -> str:
        types = [None if name is None else self.types[name] for name in inputs]
        (self.types[output],) = registry()[op].infer(attributes, *types)
        name = self.node.name or self.node.outputs[0]
        self.nodes.append(Node(op, tuple(inputs), (output,), attributes, name=name))
        return output

    def give_cast(self, value: str, dtype: DType) -> bool:
        return self.give("cast", value, attributes=Cast(dtype))

    def give_reshaped(self, value: str, shape: Shape) -> bool:
        return self.give("reshape", value, attributes=Reshape(shape))

    def reshaped(self, value: str, shape: Shape) -> str:
        if self.type(value).shape == shape:
            return value
        return self.add("reshape", value, attributes=Reshape(shape))

    def cast(self, value: str, dtype: DType) -> str:
        if self.type(value).dtype is dtype:
            return value
        return self.add("cast", value, attributes=Cast(dtype))

    def broadcast(self, value: str, shape: Shape) -> str:
        """Broadcast the value to this shape."""
        old = self.type(value).shape
        ranked = (1,) * (len(shape) - len(old)) + old
        multiples = tuple(new // size for new, size in zip(shape, ranked, strict=True))
        value = self.reshaped(value, ranked)
        if set(multiples) <= {1}:
            return value
        return self.add("tile", value, attributes=Tile(multiples))


Expand = Callable[[Expansion], bool]
EXPANSIONS: dict[str, Expand] = {}


def expands(*ops: str) -> Callable[[Expand], Expand]:
    """Register a function for ops; it returns True if the expansion was possible."""

    def register(expand: Expand) -> Expand:
        EXPANSIONS.update(dict.fromkeys(ops, expand))
        return expand

    return register


@cache
def expansions() -> Mapping[str, Expand]:
    """Return every expansion by op name."""
    return load_rules(__name__, __path__, EXPANSIONS)


def expand_nodes(graph: Graph) -> Graph:
    """Return an equivalent graph without tails and expandable ops.

    If an expansion does not apply, the node stays, and the writer refuses it.
    """
    types: dict[str, TensorType] = dict(graph.types)
    constants: dict[str, np.ndarray] = dict(graph.constants)
    names = UniqueNames()
    for name in types:
        names.fresh(name)
    grown = replace(graph, types=types, constants=constants)
    nodes = [new for node in graph.nodes for new in _expanded(node, grown, names)]
    return replace(grown, nodes=tuple(nodes))


def _expanded(node: Node, graph: Graph, names: UniqueNames) -> Iterator[Node]:
    expand = expansions().get("tail" if node.tail else node.op)
    expansion = Expansion(node, graph.types, graph.constants, names)  # type: ignore[arg-type]
    if expand is None or not expand(expansion):
        yield node
        return
    for new in expansion.nodes:
        yield from _expanded(new, graph, names)
