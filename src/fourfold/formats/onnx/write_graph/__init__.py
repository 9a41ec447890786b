"""Writes graphs as ONNX files, in the axis order that needs the fewest transposes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

import numpy as np

from fourfold.errors import InputError, Refusal, UnsupportedError
from fourfold.formats.onnx.schema import (
    ELEMENTS,
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
from fourfold.formats.onnx.write_graph.rules import rules
from fourfold.formats.onnx.write_graph.written_values import is_widened
from fourfold.formats.protobuf import MessageWriter
from fourfold.formats.rule_table import Unconvertible, summary
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph, Node
from fourfold.support.version import VERSION
from fourfold.types import OPEN, DType, Quantization, silent_arithmetic

_LAYERS = ("conv2d", "conv3d", "depthwise_conv2d", "fully_connected", "transpose_conv2d")
_BITS = 30  # bits of the largest number; float32 has 24
_MIN_EXPONENT = -126  # exponent of the smallest scale that is a normal float32


def keep_weights(model: WritableModel) -> WritableModel:
    """Store float weights and biases as int32, if the model has quantized values.

    ONNX Runtime quantizes a layer between DequantizeLinear and QuantizeLinear, and rounds its
    weights to 8 bits if they are floats. It leaves int32 weights alone.
    """
    graph, stored = model.graph, dict(model.stored)
    values = (one for name, one in stored.items() if name not in graph.constants)
    if all(one.quantization is None for one in values):
        return model
    for node in graph.nodes:
        for name in node.inputs[1:3] if node.op in _LAYERS else ():
            current = None if name is None else stored.get(name)
            if name in graph.constants and (current is None or not is_widened(current)):
                stored[str(name)] = _exact(graph.constants[str(name)])
    return replace(model, stored=stored)


def _exact(array: np.ndarray) -> StoredAs:
    """Return int32 storage with a power-of-two scale, so that only tiny numbers are rounded."""
    largest = float(np.abs(array).max(initial=0.0))
    exponent = math.frexp(largest)[1] - _BITS if math.isfinite(largest) else 0
    return StoredAs(DType.I32, Quantization((2.0 ** max(exponent, _MIN_EXPONENT),), (0,)))


MAX_BYTES = 2**31 - 1  # size limit of a protobuf message


@silent_arithmetic()
def write(model: WritableModel) -> bytes:
    """Return the model as an ONNX file.

    Raises UnsupportedError with all nodes that ONNX cannot express.
    """
    refusals = _refused_ports(model.graph)
    if refusals:
        raise _unsupported(refusals)
    writer = GraphWriter(keep_weights(model))
    refusals += _refused_states(model.graph)
    for node in model.graph.nodes:
        reason = _write_node(writer, node)
        if reason is not None:
            refusals.append(Refusal(node.name or node.outputs[0], node.op, reason))
    if refusals:
        raise _unsupported(refusals)
    written = write_file(writer, model)
    if len(written) > MAX_BYTES:
        why = f"it would have {len(written)} bytes; the limit of protobuf is {MAX_BYTES}"
        fix = "quantize its weights, or write a .fourfold file"
        raise InputError("the model is too large for one ONNX file", why, fix)
    return written


def operators() -> Mapping[str, str]:
    """Return the ops that can be written, each with a short description."""
    return {op: summary(rule) for op, rule in rules().items()}


def _unsupported(refusals: Sequence[Refusal]) -> UnsupportedError:
    fix = "exclude these operators with outputs= or inputs=, or write a .fourfold file"
    return UnsupportedError("the model cannot be written as ONNX", refusals, fix)


def _refused_ports(graph: Graph) -> list[Refusal]:
    ports = dict.fromkeys((*graph.arguments, *graph.results))
    return [
        Refusal(name, "port", f"ONNX has no tensors of {graph.types[name].dtype.value}")
        for name in ports
        if graph.types[name].dtype not in ELEMENTS
    ]


def _refused_states(graph: Graph) -> list[Refusal]:
    reason = "ONNX has no states that persist between runs"
    return [Refusal(name, "state", reason) for name in graph.states]


def _write_node(writer: GraphWriter, node: Node) -> str | None:
    """Write a node; return the reason if it cannot be written."""
    rule = rules().get(node.op)
    writer.start(node)
    try:
        if rule is None:
            raise Unconvertible("ONNX has no operator for it")
        rule(writer, node)
    except Unconvertible as error:
        for name in node.outputs:  # so that nodes that read them are checked as well
            writer.assume(name)
        return str(error)
    return None


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
