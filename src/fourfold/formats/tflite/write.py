"""Writes part of a TFLite file as a file of its own: some operators and the values at its border.

The new file is a few new tables with the whole old file behind them. A flatbuffer's offsets point
forward, so the new tables name what stays as it is by where it lies: tensors, options of any kind,
custom options, operator codes and weights are the very bytes of the original. Tensors keep their
numbers, and so do the graphs that control flow calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.tflite.flatbuffer import Content, Source, Table
from fourfold.formats.tflite.front import Byte, Front, Long, Old, Place, Value
from fourfold.formats.tflite.schema import TYPES
from fourfold.types import DType

_TENSORS, _INPUTS, _OUTPUTS, _OPERATORS, _NAME = range(5)
_VERSION, _CODES, _GRAPHS, _DESCRIPTION, _BUFFERS, _METADATA = 0, 1, 2, 3, 4, 6


@dataclass(frozen=True)
class Excerpt:
    """What to take from a file: operators of a graph by number, and where it begins and ends.

    `constants` are tensors whose values became known while the model was read; `calls` says that
    the operators call other graphs of the file.
    """

    operators: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    constants: Mapping[int, np.ndarray] = field(default_factory=dict)
    subgraph: int = 0
    calls: bool = False


def write_excerpt(content: Content, excerpt: Excerpt) -> bytes:
    """The bytes of a file that holds the excerpt alone as its first graph."""
    root = Table.root(Source(content))
    front = Front()
    model = front.table(
        {
            _VERSION: root.scalar(_VERSION, "I", 3),
            _CODES: Old(root.target(_CODES)),
            _GRAPHS: "graphs",
            _DESCRIPTION: Old(root.target(_DESCRIPTION)),
            _BUFFERS: "buffers",
            _METADATA: Old(root.target(_METADATA)),
        }
    )
    front.mark("root", model)
    graphs = [table.position for table in root.tables(_GRAPHS)]
    others = [Old(place) if excerpt.calls else "empty graph" for place in graphs[1:]]
    front.mark("graphs", front.references(["graph", *others]))
    buffers = list(root.tables(_BUFFERS))
    _write_graph(front, Table(root.source, graphs[excerpt.subgraph]), excerpt, len(buffers))
    _write_buffers(front, buffers, list(excerpt.constants.values()))
    return front.finish(content)


def _write_graph(front: Front, graph: Table, excerpt: Excerpt, buffers: int) -> None:
    fields: Mapping[int, Value] = {
        _TENSORS: "tensors",
        _INPUTS: "inputs",
        _OUTPUTS: "outputs",
        _OPERATORS: "operators",
        _NAME: Old(graph.target(_NAME)),
    }
    front.mark("graph", front.table(fields))
    nothing = {_TENSORS: "none", _INPUTS: "none", _OUTPUTS: "none", _OPERATORS: "none"}
    front.mark("empty graph", front.table(nothing))
    front.mark("none", front.references([]))
    front.mark("inputs", front.numbers(excerpt.inputs))
    front.mark("outputs", front.numbers(excerpt.outputs))
    operators = [table.position for table in graph.tables(_OPERATORS)]
    front.mark("operators", front.references([Old(operators[i]) for i in excerpt.operators]))
    tensors = list(graph.tables(_TENSORS))
    known = {index: f"tensor {index}" for index in excerpt.constants}
    places = [known.get(i) or Old(table.position) for i, table in enumerate(tensors)]
    front.mark("tensors", front.references(places))
    for number, (index, array) in enumerate(excerpt.constants.items()):
        _write_constant(front, tensors[index], known[index], array, buffers + number)


def _write_constant(front: Front, tensor: Table, name: str, array: np.ndarray, buffer: int) -> None:
    """A tensor as it was, with the shape of the array, and a new buffer for its elements."""
    fields: Mapping[int, Value] = {
        0: f"shape of {name}",
        1: Byte(TYPES.index(DType.of(array))),
        2: buffer,
        3: Old(tensor.target(3)),
        4: Old(tensor.target(4)),
        8: Byte(1),
    }
    front.mark(name, front.table(fields))
    front.mark(f"shape of {name}", front.numbers(array.shape))


def _write_buffers(front: Front, old: list[Table], arrays: list[np.ndarray]) -> None:
    """The old buffers under their numbers, then one for each new constant."""
    names: list[Value] = []
    for number, table in enumerate(old):
        outside = (
            table.scalar(1, "Q") > 1
        )  # its bytes lie behind the tables, at a place in the file
        names.append(f"outside {number}" if outside else Old(table.position))
    new = [f"buffer {number}" for number in range(len(arrays))]
    front.mark("buffers", front.references([*names, *new]))
    for number, table in enumerate(old):
        if names[number] == f"outside {number}":
            place, size = table.scalar(1, "Q"), table.scalar(2, "Q")
            front.mark(f"outside {number}", front.table({1: Place(place), 2: Long(size)}))
    for name, array in zip(new, arrays, strict=True):
        front.mark(name, front.table({0: f"data of {name}"}))
        front.mark(f"data of {name}", front.block(np.ascontiguousarray(array).tobytes()))
