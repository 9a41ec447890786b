"""Resolves names of the file to values: in the main graph, in branches and in functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fourfold.formats.onnx.file import GraphRecord, NodeRecord, TensorRecord, read_graph
from fourfold.formats.onnx.schema import AttributeField
from fourfold.formats.protobuf import Message


@dataclass
class Scope:
    """The names of one graph or function.

    Names that are missing are looked up in `outer`: subgraphs read values of the outer graph,
    functions do not.
    """

    initializers: Mapping[str, TensorRecord]
    opsets: Mapping[str, int]
    names: dict[str, str] = field(default_factory=dict)
    outer: Scope | None = None
    attributes: Mapping[str, Message] = field(default_factory=dict)  # attributes of a function call
    unit: str = ""  # the operator of the main graph that contains this scope

    def find(self, name: str) -> str | None:
        """Return the value of a name; None if there is none."""
        value = self.names.get(name)
        if value is None and self.outer is not None and name not in self.initializers:
            return self.outer.find(name)
        return value

    def initializer(self, name: str) -> TensorRecord | None:
        record = self.initializers.get(name)
        if record is None and self.outer is not None:
            return self.outer.initializer(name)
        return record

    def attributes_of(self, record: NodeRecord) -> Mapping[str, Message]:
        """Return a node's attributes; references to attributes of a function call are resolved."""
        if not self.unit:
            return record.attributes
        looked_up = {}
        for name, message in record.attributes.items():
            reference = message.text(AttributeField.REFERENCE)
            if not reference:
                looked_up[name] = message
            elif reference in self.attributes:
                looked_up[name] = self.attributes[reference]
        return looked_up


def inner_graphs(record: NodeRecord) -> Iterator[GraphRecord]:
    """Yield the subgraphs of a node: branches of an If, bodies of loops."""
    for message in record.attributes.values():
        if message.has(AttributeField.GRAPH) or message.has(AttributeField.GRAPHS):
            for field_ in (AttributeField.GRAPH, AttributeField.GRAPHS):
                for graph in message.messages(field_):
                    yield read_graph(graph)


def captured(record: NodeRecord) -> tuple[str, ...]:
    """Return the outer values that the subgraphs of a node read."""
    names: dict[str, None] = {}
    for graph in inner_graphs(record):
        names.update(dict.fromkeys(_free_names(graph)))
    return tuple(names)


def _free_names(graph: GraphRecord) -> Iterable[str]:
    own = {value.name for value in graph.inputs} | set(graph.initializers)
    for node in graph.nodes:
        for name in (*node.inputs, *captured(node)):
            if name and name not in own:
                yield name
        own.update(node.outputs)
    for value in graph.outputs:
        if value.name not in own:
            yield value.name


def needed_nodes(graph: GraphRecord) -> tuple[int, ...]:
    """Return the indices of the nodes that outputs depend on, in the order of the file."""
    needed = {value.name for value in graph.outputs}
    numbers = []
    for number in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[number]
        if needed.intersection(name for name in node.outputs if name):
            needed.update(node.inputs, captured(node))
            numbers.append(number)
    return tuple(reversed(numbers))


def read_names(graph: GraphRecord, nodes: Iterable[int]) -> set[str]:
    """Return all values that nodes read or that are outputs."""
    names = {value.name for value in graph.outputs}
    for number in nodes:
        node = graph.nodes[number]
        names.update(node.inputs, captured(node))
    return names - {""}
