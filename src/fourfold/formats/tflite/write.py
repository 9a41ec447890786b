"""Writes part of a TFLite file as a file: some operators and the values at their border.

The new file is a few new tables followed by the whole old file. Flatbuffer offsets point forward,
so the new tables refer to unchanged parts by position: tensors, options, custom options, operator
codes and weights are the bytes of the original. Tensors keep their numbers, and so do graphs that
control flow calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.source import Content
from fourfold.formats.tflite.flatbuffer import FlatBuffer, Table
from fourfold.formats.tflite.prefix import (
    ByteField,
    Existing,
    FieldValue,
    FileOffset,
    LongField,
    Prefix,
)
from fourfold.formats.tflite.schema import TYPES
from fourfold.types import DType

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
