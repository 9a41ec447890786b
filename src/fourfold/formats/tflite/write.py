"""Writes part of a TFLite file as a file: some operators and the values at their border.

The new file is a few new tables followed by the whole old file. Flatbuffer offsets point forward,
so the new tables refer to unchanged parts by position: tensors, options, custom options, operator
codes and weights are the bytes of the original. Tensors keep their numbers, and so do graphs that
control flow calls.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.source import Content
from fourfold.formats.tflite.flatbuffer import FlatBuffer, Table
from fourfold.formats.tflite.schema import TYPES
from fourfold.types import DType

ALIGNMENT = 64  # weights are read in place; this is a cache line


@dataclass(frozen=True)
class Existing:
    """A part of the old file, by its position there; None if the file does not have it."""

    position: int | None


@dataclass(frozen=True)
class ByteField:
    """A one-byte field."""

    value: int


@dataclass(frozen=True)
class LongField:
    """An eight-byte field."""

    value: int


@dataclass(frozen=True)
class FileOffset:
    """An offset into the old file, stored relative to the start of the new one."""

    position: int


FieldValue = int | str | Existing | ByteField | LongField | FileOffset


@dataclass
class Prefix:
    """New tables in sequence; references are resolved at the end."""

    data: bytearray = field(default_factory=lambda: bytearray(b"\0\0\0\0TFL3"))
    positions: dict[str, int] = field(default_factory=dict)
    offsets: list[tuple[int, str | Existing]] = field(default_factory=list)
    absolute: list[tuple[int, int]] = field(default_factory=list)

    def mark(self, name: str, position: int) -> None:
        self.positions[name] = position

    def align(self, size: int, after: int = 0) -> int:
        self.data += bytes(-(len(self.data) + after) % size)
        return len(self.data)

    def table(self, fields: Mapping[int, FieldValue]) -> int:
        """Write a table with eight bytes per field, after its vtable."""
        present = {slot: value for slot, value in fields.items() if not _absent(value)}
        count = max(present, default=-1) + 1
        self.align(8, after=4 + 2 * count)
        start = len(self.data)
        entries = [
            8 + 8 * list(present).index(slot) if slot in present else 0 for slot in range(count)
        ]
        self.data += struct.pack(f"<{2 + count}H", 4 + 2 * count, 8 + 8 * len(present), *entries)
        position = len(self.data)
        self.data += struct.pack("<i4x", position - start) + bytes(8 * len(present))
        for number, value in enumerate(present.values()):
            self._put(position + 8 + 8 * number, value)
        return position

    def references(self, values: Iterable[FieldValue]) -> int:
        items = list(values)
        position = self.align(4)
        self.data += struct.pack("<I", len(items)) + bytes(4 * len(items))
        for number, value in enumerate(items):
            self._put(position + 4 + 4 * number, value)
        return position

    def numbers(self, values: Iterable[int]) -> int:
        items = list(values)
        position = self.align(4)
        self.data += struct.pack(f"<I{len(items)}i", len(items), *items)
        return position

    def block(self, content: bytes) -> int:
        self.align(ALIGNMENT, after=4)
        position = len(self.data)
        self.data += struct.pack("<I", len(content)) + content
        return position

    def _put(self, position: int, value: FieldValue) -> None:
        if isinstance(value, str | Existing):
            self.offsets.append((position, value))
        elif isinstance(value, FileOffset):
            self.absolute.append((position, value.position))
        elif isinstance(value, int):
            struct.pack_into("<I", self.data, position, value)
        else:
            form = "<b" if isinstance(value, ByteField) else "<Q"
            struct.pack_into(form, self.data, position, value.value)

    def finish(self, content: Content) -> bytes:
        """Return the new tables followed by the old file, with all references resolved."""
        base = self.align(ALIGNMENT)
        self.offsets.append((0, "root"))
        for position, value in self.offsets:
            struct.pack_into("<I", self.data, position, self._target(value, base) - position)
        for position, offset in self.absolute:
            struct.pack_into("<Q", self.data, position, base + offset)
        return b"".join([self.data, memoryview(content)])

    def _target(self, value: str | Existing, base: int) -> int:
        return (
            base + (value.position or 0) if isinstance(value, Existing) else self.positions[value]
        )


def _absent(value: FieldValue) -> bool:
    return isinstance(value, Existing) and value.position is None


_TENSORS, _INPUTS, _OUTPUTS, _OPERATORS, _NAME = range(5)
_VERSION, _CODES, _GRAPHS, _DESCRIPTION, _BUFFERS, _METADATA = 0, 1, 2, 3, 4, 6


@dataclass(frozen=True)
class Excerpt:
    """A part of a graph: operators by index, inputs and outputs.

    `constants` are tensors whose values were computed while reading. `calls` is True if the
    operators call other graphs of the file.
    """

    operators: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    constants: Mapping[int, np.ndarray] = field(default_factory=dict)
    subgraph: int = 0
    calls: bool = False


def write_excerpt(content: Content, excerpt: Excerpt) -> bytes:
    """Return a file with the excerpt as its first graph."""
    root = Table.root(FlatBuffer(content))
    prefix = Prefix()
    model = prefix.table(
        {
            _VERSION: root.scalar(_VERSION, "I", 3),
            _CODES: Existing(root.target(_CODES)),
            _GRAPHS: "graphs",
            _DESCRIPTION: Existing(root.target(_DESCRIPTION)),
            _BUFFERS: "buffers",
            _METADATA: Existing(root.target(_METADATA)),
        }
    )
    prefix.mark("root", model)
    graphs = [table.position for table in root.tables(_GRAPHS)]
    others = [Existing(place) if excerpt.calls else "empty graph" for place in graphs[1:]]
    prefix.mark("graphs", prefix.references(["graph", *others]))
    buffers = list(root.tables(_BUFFERS))
    _write_graph(prefix, Table(root.buffer, graphs[excerpt.subgraph]), excerpt, len(buffers))
    _write_buffers(prefix, buffers, list(excerpt.constants.values()))
    return prefix.finish(content)


def first_outputs(content: Content) -> tuple[int, ...]:
    """Return the outputs of a file's first graph, as stored."""
    graph = next(Table.root(FlatBuffer(content)).tables(_GRAPHS))
    return graph.integers(_OUTPUTS)


def _write_graph(prefix: Prefix, graph: Table, excerpt: Excerpt, buffers: int) -> None:
    fields: Mapping[int, FieldValue] = {
        _TENSORS: "tensors",
        _INPUTS: "inputs",
        _OUTPUTS: "outputs",
        _OPERATORS: "operators",
        _NAME: Existing(graph.target(_NAME)),
    }
    prefix.mark("graph", prefix.table(fields))
    empty = {_TENSORS: "none", _INPUTS: "none", _OUTPUTS: "none", _OPERATORS: "none"}
    prefix.mark("empty graph", prefix.table(empty))
    prefix.mark("none", prefix.references([]))
    prefix.mark("inputs", prefix.numbers(excerpt.inputs))
    prefix.mark("outputs", prefix.numbers(excerpt.outputs))
    operators = [table.position for table in graph.tables(_OPERATORS)]
    prefix.mark("operators", prefix.references([Existing(operators[i]) for i in excerpt.operators]))
    tensors = list(graph.tables(_TENSORS))
    replaced = {index: f"tensor {index}" for index in excerpt.constants}
    tensor_tables = [replaced.get(i) or Existing(table.position) for i, table in enumerate(tensors)]
    prefix.mark("tensors", prefix.references(tensor_tables))
    for number, (index, array) in enumerate(excerpt.constants.items()):
        _write_constant(prefix, tensors[index], replaced[index], array, buffers + number)


def _write_constant(
    prefix: Prefix, tensor: Table, name: str, array: np.ndarray, buffer: int
) -> None:
    """Write a tensor with the shape of the array and a new buffer."""
    fields: Mapping[int, FieldValue] = {
        0: f"shape of {name}",
        1: ByteField(TYPES.index(DType.of(array))),
        2: buffer,
        3: Existing(tensor.target(3)),
        4: Existing(tensor.target(4)),
        8: ByteField(1),
    }
    prefix.mark(name, prefix.table(fields))
    prefix.mark(f"shape of {name}", prefix.numbers(array.shape))


def _write_buffers(prefix: Prefix, old: list[Table], arrays: list[np.ndarray]) -> None:
    """Write the old buffers under their numbers, then one for each new constant."""
    names: list[FieldValue] = []
    for number, table in enumerate(old):
        # Its bytes are after the tables, at an absolute offset.
        outside = table.scalar(1, "Q") > 1
        names.append(f"outside {number}" if outside else Existing(table.position))
    new = [f"buffer {number}" for number in range(len(arrays))]
    prefix.mark("buffers", prefix.references([*names, *new]))
    for number, table in enumerate(old):
        if names[number] == f"outside {number}":
            offset, size = table.scalar(1, "Q"), table.scalar(2, "Q")
            prefix.mark(
                f"outside {number}", prefix.table({1: FileOffset(offset), 2: LongField(size)})
            )
    for name, array in zip(new, arrays, strict=True):
        prefix.mark(name, prefix.table({0: f"data of {name}"}))
        prefix.mark(f"data of {name}", prefix.block(np.ascontiguousarray(array).tobytes()))
