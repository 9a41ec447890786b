"""Which value a name of the file stands for: in the main graph, in a branch, in a function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fourfold.formats.onnx.file import read_graph
from fourfold.formats.onnx.records import GraphRecord, NodeRecord, TensorRecord
from fourfold.formats.onnx.schema import AttributeField
from fourfold.formats.protobuf import Message


@dataclass
class Scope:
    """The names of one graph or function. What it does not have, `outer` may have: graphs inside of
    others read their values, functions do not.
    """

    initializers: Mapping[str, TensorRecord]
    opsets: Mapping[str, int]
    names: dict[str, str] = field(default_factory=dict)
    outer: Scope | None = None
    attributes: Mapping[str, Message] = field(default_factory=dict)  # of a function's call
    unit: str = ""  # the operator of the main graph that this is inside of

    def find(self, name: str) -> str | None:
        """The value that a name stands for; None where nothing has it."""
        found = self.names.get(name)
        if found is None and self.outer is not None and name not in self.initializers:
            return self.outer.find(name)
        return found

    def initializer(self, name: str) -> TensorRecord | None:
        found = self.initializers.get(name)
        if found is None and self.outer is not None:
            return self.outer.initializer(name)
        return found

    def attributes_of(self, record: NodeRecord) -> Mapping[str, Message]:
        """A node's attributes; those that a function takes from its call are looked up."""
        if not self.unit:
            return record.attributes
        found = {}
        for name, message in record.attributes.items():
            reference = message.text(AttributeField.REFERENCE)
            if not reference:
                found[name] = message
            elif reference in self.attributes:
                found[name] = self.attributes[reference]
        return found


def inner_graphs(record: NodeRecord) -> Iterator[GraphRecord]:
    """The graphs that a node holds: branches of an If, bodies of loops."""
    for message in record.attributes.values():
        if message.has(AttributeField.GRAPH) or message.has(AttributeField.GRAPHS):
            for field_ in (AttributeField.GRAPH, AttributeField.GRAPHS):
                for graph in message.messages(field_):
                    yield read_graph(graph)


def captured(record: NodeRecord) -> tuple[str, ...]:
    """The values from outside that the graphs of a node read."""
    found: dict[str, None] = {}
    for graph in inner_graphs(record):
        found.update(dict.fromkeys(_free_names(graph)))
    return tuple(found)


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
    """The numbers of the nodes that outputs depend on, in the order of the file."""
    wanted = {value.name for value in graph.outputs}
    found = []
    for number in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[number]
        if wanted.intersection(name for name in node.outputs if name):
            wanted.update(node.inputs, captured(node))
            found.append(number)
    return tuple(reversed(found))


def read_names(graph: GraphRecord, nodes: Iterable[int]) -> set[str]:
    """All values that nodes read or that are outputs."""
    found = {value.name for value in graph.outputs}
    for number in nodes:
        node = graph.nodes[number]
        found.update(node.inputs, captured(node))
    return found - {""}
