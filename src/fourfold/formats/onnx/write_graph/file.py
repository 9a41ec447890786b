"""Writes the protobuf messages of an ONNX file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

from fourfold.formats.onnx.schema import (
    AttributeField,
    Element,
    EntryField,
    GraphField,
    ModelField,
    NodeField,
    OpsetField,
    ShapeField,
    SizeField,
    TensorTypeField,
    TypeField,
    ValueField,
)
from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter
from fourfold.formats.onnx.write_graph.operator_list import Attribute, Port, WrittenNode
from fourfold.formats.protobuf import MessageWriter
from fourfold.formats.writable import WritableModel
from fourfold.support.version import VERSION
from fourfold.types import OPEN

# NEWER supports 4-bit and 16-bit quantized values. ONNX Runtime 1.31 cannot move a transpose over
# its DequantizeLinear, so it is only used if needed.
OLDER, NEWER = (9, 20), (10, 21)  # IR version and opset
_NEWER_ELEMENTS = frozenset({Element.INT4, Element.UINT16, Element.INT16})


class AttributeType(IntEnum):
    FLOAT = 1
    INTEGER = 2
    TEXT = 3
    INTEGERS = 7


def write_file(writer: GraphWriter, model: WritableModel) -> bytes:
    outputs = writer.finish()
    version, operators = _versions(writer)
    file = MessageWriter().integer(ModelField.IR_VERSION, version)
    file.text(ModelField.PRODUCER, "fourfold").text(ModelField.PRODUCER_VERSION, VERSION)
    _describe(file, model)
    opset = MessageWriter().text(OpsetField.DOMAIN, "").integer(OpsetField.VERSION, operators)
    file.message(ModelField.OPSETS, opset)
    return file.message(ModelField.GRAPH, _graph(writer, outputs)).finish()


def _describe(file: MessageWriter, model: WritableModel) -> None:
    """Write the metadata that ONNX supports: a description and key-value pairs."""
    about = model.metadata
    text = about.description or model.description
    if text:
        file.text(ModelField.DESCRIPTION, text)
    if about.version.isdecimal():
        file.integer(ModelField.VERSION, int(about.version))
    own = {"author": about.author, "licence": about.licence}
    for name, words in {**own, **about.properties}.items():
        if words and name != "producer":
            entry = MessageWriter().text(EntryField.KEY, name).text(EntryField.VALUE, words)
            file.message(ModelField.METADATA, entry)


def _versions(writer: GraphWriter) -> tuple[int, int]:
    linear = ("QuantizeLinear", "DequantizeLinear")
    read = {name for node in writer.nodes if node.op in linear for name in node.inputs}
    constants = (writer.initializers[name].element for name in read & writer.initializers.keys())
    return OLDER if _NEWER_ELEMENTS.isdisjoint(constants) else NEWER


def _graph(writer: GraphWriter, outputs: Sequence[Port]) -> MessageWriter:
    graph = MessageWriter().text(GraphField.NAME, writer.graph.name or "main")
    names = writer.names
    for node in writer.nodes:
        graph.message(GraphField.NODES, _node(node, names))
    for constant in _read_constants(writer, outputs):
        initializer = writer.initializers[constant]
        graph.message(GraphField.INITIALIZERS, initializer.message(constant))
    for port in writer.inputs:
        graph.message(GraphField.INPUTS, _port(port))
    for port in outputs:
        graph.message(GraphField.OUTPUTS, _port(port))
    if writer.model.for_viewers:
        ports = {port.name for port in (*writer.inputs, *outputs)}
        for port in writer.inner_values():
            if port.name not in ports:
                graph.message(GraphField.VALUES, _port(port))
    return graph


def _read_constants(writer: GraphWriter, outputs: Sequence[Port]) -> Iterator[str]:
    read = {name for node in writer.nodes for name in node.inputs}
    read.update(port.name for port in outputs)
    yield from (name for name in writer.initializers if name in read)


def _node(node: WrittenNode, names: Mapping[str, str]) -> MessageWriter:
    inputs = [names.get(name, name) for name in node.inputs]
    outputs = [names.get(name, name) for name in node.outputs]
    message = MessageWriter().texts(NodeField.INPUTS, inputs).texts(NodeField.OUTPUTS, outputs)
    message.text(NodeField.NAME, outputs[0]).text(NodeField.OP, node.op)
    for name, value in node.attributes.items():
        message.message(NodeField.ATTRIBUTES, _attribute(name, value))
    return message


def _attribute(name: str, value: Attribute) -> MessageWriter:
    message = MessageWriter().text(AttributeField.NAME, name)
    if isinstance(value, int):
        kind = AttributeType.INTEGER
        message.integer(AttributeField.INTEGER, value)
    elif isinstance(value, float):
        kind = AttributeType.FLOAT
        message.float32(AttributeField.FLOAT, value)
    elif isinstance(value, str):
        kind = AttributeType.TEXT
        message.text(AttributeField.TEXT, value)
    else:
        kind = AttributeType.INTEGERS
        for number in value:
            message.integer(AttributeField.INTEGERS, number)
    return message.integer(AttributeField.TYPE, kind)


def _size(port: Port, axis: int, size: int) -> MessageWriter:
    """Return a size, or a name for a dynamic one; the batch has the same name everywhere."""
    if size == OPEN:
        return MessageWriter().text(SizeField.NAME, f"{port.name}_{axis}" if axis else "batch")
    return MessageWriter().integer(SizeField.NUMBER, size)


def _port(port: Port) -> MessageWriter:
    shape = MessageWriter()
    for axis, size in enumerate(port.shape):
        shape.message(ShapeField.SIZES, _size(port, axis, size))
    kind = MessageWriter().integer(TensorTypeField.ELEMENT, port.element)
    kind.message(TensorTypeField.SHAPE, shape)
    value = MessageWriter().text(ValueField.NAME, port.name)
    return value.message(ValueField.TYPE, MessageWriter().message(TypeField.TENSOR, kind))
