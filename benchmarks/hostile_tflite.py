"""Writes small TFLite files that would take long, or much memory, in a careless compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hostile_models import SHAPE, HostileFile, case

from fourfold.formats.tflite.options import dataclass_of
from fourfold.formats.tflite.records import (
    FileRecord,
    OperatorRecord,
    SignatureRecord,
    SubgraphRecord,
    TensorRecord,
)
from fourfold.formats.tflite.write_graph.draft import OPTION_TABLES
from fourfold.formats.tflite.write_graph.serialize import serialize
from fourfold.types import DType


def tflite_file(
    tensors: Sequence[TensorRecord],
    operators: Sequence[OperatorRecord],
    inputs: Sequence[int],
    outputs: Sequence[int],
    buffers: Sequence[np.ndarray] = (),
) -> FileRecord:
    graph = SubgraphRecord("main", tuple(tensors), tuple(inputs), tuple(outputs), tuple(operators))
    return FileRecord(3, "", (graph,), (np.empty(0, np.uint8), *buffers))


def written(file: FileRecord) -> HostileFile:
    return HostileFile(serialize(file), "tflite", sum(one.nbytes for one in file.buffers))


def tensor(name: str, shape: Sequence[int] = SHAPE, buffer: int = 0) -> TensorRecord:
    return TensorRecord(name, DType.F32, tuple(shape), buffer)


def operator(op: str, inputs: Sequence[int], output: int, **fields: Any) -> OperatorRecord:
    options = dataclass_of(OPTION_TABLES[op])(**fields) if op in OPTION_TABLES else None
    return OperatorRecord(op, 1, tuple(inputs), (output,), options)


@case
def tflite_concat(scale: float) -> HostileFile:
    """One CONCATENATION that reads the same tensor 20 000 times."""
    count = int(20_000 * scale)
    tensors = [tensor("x"), tensor("y", (1, 4 * count, 4, 4))]
    return written(
        tflite_file(tensors, [operator("CONCATENATION", [0] * count, 1, axis=1)], [0], [1])
    )


@case
def tflite_adds(scale: float) -> HostileFile:
    """A chain of 50 000 ADDs."""
    count = int(50_000 * scale)
    tensors = [tensor(f"t{number}") for number in range(count + 1)]
    operators = [operator("ADD", [n, n], n + 1) for n in range(count)]
    return written(tflite_file(tensors, operators, [0], [count]))


@case
def tflite_constants(scale: float) -> HostileFile:
    """20 000 MULs with a constant each."""
    count = int(20_000 * scale)
    tensors = [tensor(f"t{number}") for number in range(count + 1)]
    tensors += [tensor(f"c{number}", (4,), number + 1) for number in range(count)]
    operators = [operator("MUL", [n, count + 1 + n], n + 1) for n in range(count)]
    buffers = [np.full(4, n, np.float32).view(np.uint8) for n in range(count)]
    return written(tflite_file(tensors, operators, [0], [count], buffers))


@case
def tflite_outputs(scale: float) -> HostileFile:
    """One tensor that 20 000 operators read, each the producer of an output."""
    count = int(20_000 * scale)
    tensors = [tensor(f"t{number}") for number in range(count + 1)]
    operators = [operator("LOGISTIC", [0], n + 1) for n in range(count)]
    return written(tflite_file(tensors, operators, [0], range(1, count + 1)))


@case
def tflite_signatures(scale: float) -> HostileFile:
    """3 000 signatures of a graph with 3 000 outputs."""
    count = int(3000 * scale)
    tensors = [tensor(f"t{number}") for number in range(count + 1)]
    operators = [operator("LOGISTIC", [0], n + 1) for n in range(count)]
    file = tflite_file(tensors, operators, [0], range(1, count + 1))
    signatures = (SignatureRecord(f"s{n}", {"x": 0}, {"y": n + 1}, 0) for n in range(count))
    return written(replace(file, signatures=tuple(signatures)))


@case
def tflite_subgraphs(scale: float) -> HostileFile:
    """2 000 graphs of 20 ADDs."""
    tensors = [tensor(f"t{number}") for number in range(21)]
    operators = [operator("ADD", [n, n], n + 1) for n in range(20)]
    file = tflite_file(tensors, operators, [0], [20])
    return written(replace(file, subgraphs=file.subgraphs * int(2000 * scale)))
