"""What an ONNX file says, as frozen records: names and positions, nothing interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.formats.protobuf import Message

Size = int | str  # of one axis: a number, or a name for a size that is left open; '' has no name


@dataclass(frozen=True)
class TensorRecord:
    """A constant of the file: its type and where its numbers are."""

    name: str
    element: int
    shape: tuple[int, ...]
    message: Message


@dataclass(frozen=True)
class ValueRecord:
    """A value with what the file says of its type. `element` is None for what is no tensor or has
    no type, `sizes` where not even the rank is known.
    """

    name: str
    element: int | None
    sizes: tuple[Size, ...] | None
    kind: str = "tensor"


@dataclass(frozen=True)
class NodeRecord:
    """One operator; '' among its values stands for one that is left out."""

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
        """The op as people know it: 'Conv', 'com.microsoft.FusedConv'."""
        return f"{self.domain}.{self.op}" if self.domain else self.op


@dataclass(frozen=True)
class GraphRecord:
    name: str
    nodes: tuple[NodeRecord, ...]
    initializers: Mapping[str, TensorRecord]
    inputs: tuple[ValueRecord, ...]
    outputs: tuple[ValueRecord, ...]
    values: Mapping[str, ValueRecord]  # all of which the file gives the type
    sparse: tuple[str, ...] = ()  # initialisers that list only what is not zero


FunctionKey = tuple[str, str, str]  # domain, name, overload


@dataclass(frozen=True)
class FunctionRecord:
    """An operator that the file itself defines by others. `defaults` are attributes, too."""

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
