"""Records of an ONNX file, not yet interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.formats.protobuf import Message

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
