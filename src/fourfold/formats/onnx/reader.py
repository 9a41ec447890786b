"""Reads an ONNX file into a Model.

OnnxSourceGraph is the main graph of the file, whose parts can be written as files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from fourfold.formats.budget import Budget
from fourfold.formats.conversion import ON_THE_CPU, SEE_OPS, report_damage, unsupported
from fourfold.formats.inputs import ReadOptions, open_sizes
from fourfold.formats.model import Model, SourceGraph
from fourfold.formats.names import printable, short_properties, unique
from fourfold.formats.onnx.convert import rules
from fourfold.formats.onnx.file import FileRecord, NodeRecord, TensorRecord, read_file
from fourfold.formats.onnx.main_graph import Converted, convert_graph
from fourfold.formats.onnx.schema import (
    ELEMENTS,
    Element,
    GraphField,
    ModelField,
    OpsetField,
    ShapeField,
    SizeField,
    TensorField,
    TensorTypeField,
    TypeField,
    ValueField,
)
from fourfold.formats.onnx.scope import captured, needed_nodes, read_names
from fourfold.formats.onnx.tensors import ExternalFiles, is_external, stored_array
from fourfold.formats.protobuf import MessageWriter
from fourfold.formats.rule_table import summary
from fourfold.formats.source import Content, ModelSource
from fourfold.graph.metadata import ModelMetadata
from fourfold.types import OPEN, DType, Shape

MIN_IR_VERSION = 4  # first IR version in which initializers need not be inputs


@dataclass(frozen=True)
class Port:
    """An input or output; `shape` is None if it is known only at run time."""

    name: str
    element: int
    shape: Shape | None


@dataclass(frozen=True)
class Excerpt:
    """A part of a graph: nodes, inputs, outputs, and constants computed while reading."""

    nodes: Sequence[NodeRecord]
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    # Constants adapted to another batch.
    changed: Mapping[str, np.ndarray] = field(default_factory=dict)
    float16_values: Set[str] = frozenset()  # values stored as float16

    def known_array(self, name: str) -> np.ndarray:
        """Return a computed constant in the file's element type."""
        array = self.known[name]
        return array.astype(np.float16) if name in self.float16_values else array


def write_excerpt(file: FileRecord, files: ExternalFiles, excerpt: Excerpt) -> bytes:
    model = MessageWriter()
    model.integer(ModelField.IR_VERSION, max(file.ir_version, MIN_IR_VERSION))
    for domain, version in file.opsets.items():
        entry = MessageWriter().text(OpsetField.DOMAIN, domain)
        model.message(ModelField.OPSETS, entry.integer(OpsetField.VERSION, version))
    for function in file.functions.values():
        model.block(ModelField.FUNCTIONS, function.content)
    return model.message(ModelField.GRAPH, _graph(file, files, excerpt)).finish()


def _graph(file: FileRecord, files: ExternalFiles, excerpt: Excerpt) -> MessageWriter:
    excerpt = _with_dequantization(file, excerpt)
    graph = MessageWriter().text(GraphField.NAME, file.graph.name or "main")
    written = {name for node in excerpt.nodes for name in node.outputs}
    passed = {port.name for port in excerpt.inputs}
    constants = {node.outputs[0]: node for node in file.graph.nodes if _is_constant(node)}
    for name in _names_read(excerpt):
        tensor = file.graph.initializers.get(name)
        if name in written or name in passed:
            continue
        if name in excerpt.changed:
            graph.message(GraphField.INITIALIZERS, tensor_message(name, excerpt.changed[name]))
        elif tensor is not None:
            graph.message(GraphField.INITIALIZERS, _tensor(tensor, files))
        elif name in constants:
            graph.block(GraphField.NODES, constants[name].content)
        elif name in excerpt.known:
            graph.message(GraphField.INITIALIZERS, tensor_message(name, excerpt.known_array(name)))
    for node in excerpt.nodes:
        graph.block(GraphField.NODES, node.content)
    for port in excerpt.inputs:
        graph.message(GraphField.INPUTS, _port(port))
    for port in excerpt.outputs:
        graph.message(GraphField.OUTPUTS, _port(port))
    return graph


def _with_dequantization(file: FileRecord, excerpt: Excerpt) -> Excerpt:
    """Add the nodes that dequantize constants of the excerpt.

    If ONNX Runtime finds float weights between quantized values, it quantizes them itself.
    """
    makers: dict[str, NodeRecord] = {}
    for node in file.graph.nodes:
        is_constant = node.outputs[0] in excerpt.known and node.outputs[0] not in excerpt.changed
        if is_constant and (
            node.title == "DequantizeLinear" or not makers.keys().isdisjoint(node.inputs)
        ):
            makers[node.outputs[0]] = node
    needed: dict[str, NodeRecord] = {}
    waiting = list(_names_read(excerpt))
    while waiting:
        name = waiting.pop()
        if name in makers and name not in needed:
            needed[name] = makers[name]
            waiting += makers[name].inputs
    first = [node for name, node in makers.items() if name in needed]
    return replace(excerpt, nodes=[*first, *excerpt.nodes])


def _is_constant(node: NodeRecord) -> bool:
    return node.title == "Constant" and len(node.outputs) == 1


def _names_read(excerpt: Excerpt) -> Iterator[str]:
    names = dict.fromkeys(
        name for node in excerpt.nodes for name in (*node.inputs, *captured(node)) if name
    )
    yield from names
    yield from (port.name for port in excerpt.outputs if port.name not in names)


def _tensor(record: TensorRecord, files: ExternalFiles) -> MessageWriter:
    """Return an initializer as stored in the file; external data is embedded."""
    if not is_external(record):
        return MessageWriter([record.message.content], len(record.message.content))
    numbers = stored_array(record, files)
    return _tensor_fields(record.name, record.element, record.shape, numbers)


def tensor_message(name: str, array: np.ndarray) -> MessageWriter:
    """Return an array as an initializer."""
    dtype = array.dtype.newbyteorder("<")
    numbers = np.ascontiguousarray(array, dtype)
    return _tensor_fields(name, ELEMENTS[DType.of(array)], array.shape, numbers)


def _tensor_fields(name: str, element: int, shape: Shape, numbers: np.ndarray) -> MessageWriter:
    message = MessageWriter().integers(TensorField.SHAPE, shape)
    message.integer(TensorField.ELEMENT, element).text(TensorField.NAME, name)
    return message.block(
        TensorField.RAW, np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).data
    )


def _port(port: Port) -> MessageWriter:
    kind = MessageWriter().integer(TensorTypeField.ELEMENT, port.element)
    if port.shape is not None:
        shape = MessageWriter()
        for size in port.shape:
            shape.message(ShapeField.SIZES, MessageWriter().integer(SizeField.NUMBER, size))
        kind.message(TensorTypeField.SHAPE, shape)
    value = MessageWriter().text(ValueField.NAME, port.name)
    return value.message(ValueField.TYPE, MessageWriter().message(TypeField.TENSOR, kind))


@dataclass(frozen=True)
class OnnxSourceGraph(SourceGraph):
    """The main graph of a file, with its units and values by name."""

    source: Content
    file: FileRecord
    files: ExternalFiles
    converted: Converted

    @property
    def known(self) -> Mapping[str, np.ndarray]:
        return self.converted.known

    @cached_property
    def units(self) -> Mapping[str, NodeRecord]:
        """Return the nodes by the first of their results that is read."""
        numbers = needed_nodes(self.file.graph)
        read = read_names(self.file.graph, numbers)
        nodes = (self.file.graph.nodes[number] for number in numbers)
        return {next(name for name in node.outputs if name in read): node for node in nodes}

    @cached_property
    def titles(self) -> Mapping[str, str]:
        return {name: node.title for name, node in self.units.items()}

    @property
    def content(self) -> bytes:
        """Return the file, with external data embedded."""
        if not any(is_external(tensor) for tensor in self.file.graph.initializers.values()):
            return bytes(self.source)
        inputs = [value.name for value in self.file.graph.inputs if value.name in self.values]
        return self.write(list(self.units), inputs, [one.name for one in self.file.graph.outputs])

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Return the values by name; the two are equal in ONNX. Initializers are not values."""
        return {name: name for name in self._value_names()}

    def _value_names(self) -> Iterator[str]:
        constants = self.file.graph.initializers
        yield from (value.name for value in self.file.graph.inputs if value.name not in constants)
        yield from (name for node in self.file.graph.nodes for name in node.outputs if name)

    def reads(self, unit: str) -> tuple[str, ...]:
        node = self.units[unit]
        names = dict.fromkeys(name for name in (*node.inputs, *captured(node)) if name)
        return tuple(name for name in names if name in self.values and name not in self.known)

    def writes(self, unit: str) -> tuple[str, ...]:
        return tuple(name for name in self.units[unit].outputs if name)

    def write(
        self,
        units: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> bytes:
        selected = set(units)
        excerpt = Excerpt(
            nodes=[node for name, node in self.units.items() if name in selected],
            inputs=[self._port(name) for name in inputs],
            outputs=[self._port(name) for name in outputs],
            known=self.known,
            changed=self.converted.changed,
            float16_values=self.converted.float16_values,
        )
        return write_excerpt(self.file, self.files, excerpt)

    def _port(self, value: str) -> Port:
        name = self.tensor(value)
        assert isinstance(name, str), f"'{value}' is not a value of the file"
        declared, type = (
            self.file.graph.values.get(name),
            self.converted.types.get(self.converted.names[name]),
        )
        if declared is not None and declared.element is not None:
            element = declared.element
        elif name in self.converted.float16_values:
            element = Element.FLOAT16
        else:
            element = Element.FLOAT if type is None else ELEMENTS[type.dtype]
        is_sized = type is not None and name not in self.converted.unsized
        return Port(name, element, type.shape if is_sized and type is not None else None)


def read(source: ModelSource, options: ReadOptions) -> Model:
    """Read the model; ONNX has one graph and no signatures."""
    options.refuse_signature("ONNX")
    files = ExternalFiles(None if source.path is None else os.path.abspath(source.path))
    with report_damage(source.title, "ONNX model", RecursionError):
        file = read_file(source.content)
        converted = convert_graph(file, files, options, Budget.of(len(source.content)))
    if converted.graph is None:
        fix = f"{ON_THE_CPU}; {SEE_OPS}"
        raise unsupported(source.title, converted.refusals, fix)
    input_sizes = {value.name: value.sizes or () for value in file.graph.inputs}
    sizes = [
        tuple(size if isinstance(size, int) else OPEN for size in input_sizes[name])
        for name in converted.graph.arguments
    ]
    return Model(
        main=converted.graph,
        input_names=converted.graph.arguments,
        output_names=unique(value.name for value in file.graph.outputs),
        open_sizes=tuple(open_sizes(one) for one in sizes),
        graphs=(converted.graph,),
        description=file.description or file.producer,
        read_metadata=partial(_metadata, file),
        source_graph=OnnxSourceGraph(source.content, file, files, converted),
    )


def _metadata(file: FileRecord) -> ModelMetadata:
    properties = {"producer": file.producer} if file.producer else {}
    return ModelMetadata(
        name=printable(file.graph.name),
        description=printable(file.description),
        version=str(file.version or ""),
        properties=short_properties({**properties, **file.metadata}),
    )


def operators() -> Mapping[str, str]:
    return {op: summary(convert) for op, convert in rules().items()}
