"""Records of an ONNX file, and the functions that read its protobuf messages into them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fourfold.formats.onnx.schema import (
    AttributeField,
    EntryField,
    FunctionField,
    GraphField,
    ModelField,
    NodeField,
    OpsetField,
    ShapeField,
    SizeField,
    TensorField,
    TensorTypeField,
    TypeField,
    ValueField,
)
from fourfold.formats.protobuf import Message
from fourfold.formats.source import Content

Size = int | str  # size of one axis: a number, or the name of a dynamic size, which may be ''


@dataclass(frozen=True)
class TensorRecord:
    """A constant of the file: its type and the message that holds its data."""

    name: str
    element: int
    shape: tuple[int, ...]
    message: Message


@dataclass(frozen=True)
class ValueRecord:
    """A value and its type in the file.

    `element` is None for a value that is not a tensor or has no type; `sizes` is None if the rank
    is unknown.
    """

    name: str
    element: int | None
    sizes: tuple[Size, ...] | None
    kind: str = "tensor"


@dataclass(frozen=True)
class NodeRecord:
    """One operator; '' stands for an omitted input or output."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Message]
    content: memoryview
    overload: str = ""

    @property
    def title(self) -> str:
        """Return the operator's full name: 'Conv', 'com.microsoft.FusedConv'."""
        return f"{self.domain}.{self.op}" if self.domain else self.op


@dataclass(frozen=True)
class GraphRecord:
    name: str
    nodes: tuple[NodeRecord, ...]
    initializers: Mapping[str, TensorRecord]
    inputs: tuple[ValueRecord, ...]
    outputs: tuple[ValueRecord, ...]
    values: Mapping[str, ValueRecord]  # all values with a type in the file
    sparse: tuple[str, ...] = ()  # names of sparse initializers


FunctionKey = tuple[str, str, str]  # domain, name, overload


@dataclass(frozen=True)
class FunctionRecord:
    """A function: an operator that the file defines with others. `defaults` are attributes, too."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    defaults: Mapping[str, Message]
    nodes: tuple[NodeRecord, ...]
    opsets: Mapping[str, int]
    content: memoryview


@dataclass(frozen=True)
class FileRecord:
    ir_version: int
    opsets: Mapping[str, int]
    graph: GraphRecord
    functions: Mapping[FunctionKey, FunctionRecord]
    producer: str = ""
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    version: int = 0


MAX_RANK = 32
_STANDARD = {"ai.onnx": ""}  # two names of the default domain
_NOT_TENSORS = {
    TypeField.SEQUENCE: "sequence",
    TypeField.MAP: "map",
    TypeField.SPARSE: "sparse tensor",
    TypeField.OPTIONAL: "optional",
}


def read_file(content: Content) -> FileRecord:
    """Read all records of a file."""
    message = Message(content)
    graph = message.message(ModelField.GRAPH)
    if graph is None:
        raise ValueError("it has no graph")
    producer = f"{message.text(ModelField.PRODUCER)} {message.text(ModelField.PRODUCER_VERSION)}"
    return FileRecord(
        ir_version=message.integer(ModelField.IR_VERSION),
        opsets=_opsets(message.messages(ModelField.OPSETS)),
        graph=read_graph(graph),
        functions=dict(_function(one) for one in message.messages(ModelField.FUNCTIONS)),
        producer=producer.strip(),
        description=message.text(ModelField.DESCRIPTION),
        metadata=read_entries(message.messages(ModelField.METADATA)),
        version=message.integer(ModelField.VERSION),
    )


def _opsets(messages: Iterable[Message]) -> Mapping[str, int]:
    pairs = ((one.text(OpsetField.DOMAIN), one.integer(OpsetField.VERSION)) for one in messages)
    return {_domain(name): version for name, version in pairs}


def _domain(name: str) -> str:
    return _STANDARD.get(name, name)


def read_entries(messages: Iterable[Message]) -> Mapping[str, str]:
    """Return key-value pairs of strings."""
    return {one.text(EntryField.KEY): one.text(EntryField.VALUE) for one in messages}


def read_graph(message: Message) -> GraphRecord:
    """Read the graph of a file, or one inside an attribute."""
    inputs = tuple(_value(one) for one in message.messages(GraphField.INPUTS))
    outputs = tuple(_value(one) for one in message.messages(GraphField.OUTPUTS))
    others = tuple(_value(one) for one in message.messages(GraphField.VALUES))
    tensors = (read_tensor(one) for one in message.messages(GraphField.INITIALIZERS))
    return GraphRecord(
        name=message.text(GraphField.NAME),
        nodes=tuple(_node(one) for one in message.messages(GraphField.NODES)),
        initializers={tensor.name: tensor for tensor in tensors},
        inputs=inputs,
        outputs=outputs,
        values={value.name: value for value in (*others, *outputs, *inputs)},
        sparse=tuple(_sparse(one) for one in message.messages(GraphField.SPARSE_INITIALIZERS)),
    )


def _sparse(message: Message) -> str:
    """Return the name of a sparse tensor, which is the name of its values."""
    values = message.message(1)
    return "" if values is None else values.text(TensorField.NAME)


def _node(message: Message) -> NodeRecord:
    attributes = message.messages(NodeField.ATTRIBUTES)
    return NodeRecord(
        op=message.text(NodeField.OP),
        domain=_domain(message.text(NodeField.DOMAIN)),
        name=message.text(NodeField.NAME),
        inputs=message.texts(NodeField.INPUTS),
        outputs=message.texts(NodeField.OUTPUTS),
        attributes={one.text(AttributeField.NAME): one for one in attributes},
        content=message.content,
        overload=message.text(NodeField.OVERLOAD),
    )


def read_tensor(message: Message) -> TensorRecord:
    shape = tuple(message.integers(TensorField.SHAPE).tolist())
    if len(shape) > MAX_RANK:
        raise ValueError(f"a tensor has {len(shape)} axes")
    element = message.integer(TensorField.ELEMENT)
    return TensorRecord(message.text(TensorField.NAME), element, shape, message)


def _value(message: Message) -> ValueRecord:
    name, kind = message.text(ValueField.NAME), message.message(ValueField.TYPE)
    if kind is None:
        return ValueRecord(name, None, None)
    tensor = kind.message(TypeField.TENSOR)
    if tensor is None:
        kinds = (words for number, words in _NOT_TENSORS.items() if kind.has(number))
        return ValueRecord(name, None, None, next(kinds, "tensor"))
    shape = tensor.message(TensorTypeField.SHAPE)
    sizes = None if shape is None else tuple(map(_size, shape.messages(ShapeField.SIZES)))
    if sizes is not None and len(sizes) > MAX_RANK:
        raise ValueError(f"'{name}' has {len(sizes)} axes")
    return ValueRecord(name, tensor.integer(TensorTypeField.ELEMENT), sizes)


def _size(message: Message) -> Size:
    """Return a number, or the name of a dynamic size ('' for none, or for -1)."""
    if message.has(SizeField.NUMBER) and message.integer(SizeField.NUMBER) >= 0:
        return message.integer(SizeField.NUMBER)
    return message.text(SizeField.NAME).strip("?")  # '?' stands for any size and is not a name


def _function(message: Message) -> tuple[FunctionKey, FunctionRecord]:
    defaults = message.messages(FunctionField.DEFAULTS)
    domain = _domain(message.text(FunctionField.DOMAIN))
    key = (domain, message.text(FunctionField.NAME), message.text(FunctionField.OVERLOAD))
    return key, FunctionRecord(
        inputs=message.texts(FunctionField.INPUTS),
        outputs=message.texts(FunctionField.OUTPUTS),
        attributes=message.texts(FunctionField.ATTRIBUTES),
        defaults={one.text(AttributeField.NAME): one for one in defaults},
        nodes=tuple(_node(one) for one in message.messages(FunctionField.NODES)),
        opsets=_opsets(message.messages(FunctionField.OPSETS)),
        content=message.content,
    )
