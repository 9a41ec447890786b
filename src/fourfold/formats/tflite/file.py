"""Reads a TFLite file into records and checks every number."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from fourfold.formats.budget import MAX_RANK
from fourfold.formats.conversion import report_damage
from fourfold.formats.source import Content
from fourfold.formats.tflite.flatbuffer import FlatBuffer, Table
from fourfold.formats.tflite.options import SECOND, read_options
from fourfold.formats.tflite.records import (
    DimensionRecord,
    FileRecord,
    OperatorRecord,
    QuantizationRecord,
    SignatureRecord,
    SparsityRecord,
    SubgraphRecord,
    TensorRecord,
)
from fourfold.formats.tflite.schema import CUSTOM, element_type, operator_name
from fourfold.formats.tflite.tensors import check_texts
from fourfold.types import DType, Shape

_INDEX_TYPES: dict[int, type[np.integer]] = {1: np.int32, 2: np.uint16, 3: np.uint8}
_Codes = list[tuple[str, int, str]]


def read_file(content: Content, title: str) -> FileRecord:
    """Read all records of a file; errors from a damaged file become a ModelError here."""
    with report_damage(title, "TFLite file", struct.error):
        return _file(Table.root(FlatBuffer(content)))


def _file(root: Table) -> FileRecord:
    buffers = tuple(_buffer(table) for table in root.tables(4))
    codes = [_code(table) for table in root.tables(1)]
    subgraphs = tuple(_subgraph(table, codes, len(buffers)) for table in root.tables(2))
    if not subgraphs:
        raise ValueError("it has no graph")
    for tensor in (tensor for graph in subgraphs for tensor in graph.tensors):
        if tensor.dtype is DType.STRING and buffers[tensor.buffer].size:
            check_texts(tensor, buffers[tensor.buffer])
    return FileRecord(
        version=root.scalar(0, "I"),
        description=root.text(3),
        subgraphs=subgraphs,
        buffers=buffers,
        signatures=tuple(_signature(table, subgraphs) for table in root.tables(7)),
        metadata={
            table.text(0): buffers[_within(table.scalar(1, "I"), len(buffers), "metadata's buffer")]
            for table in root.tables(6)
        },
        size=root.buffer.size,
    )


def _buffer(table: Table) -> np.ndarray:
    """Return the bytes of a buffer: inside the tables, or after them in files over 2 GiB."""
    offset, size = table.scalar(1, "Q"), table.scalar(2, "Q")
    if offset > 1:
        return table.buffer.view(offset, np.dtype(np.uint8), size)
    return table.vector(0, np.uint8)


def _code(table: Table) -> tuple[str, int, str]:
    """Return an operator's name, version and custom name; codes over 127 have their own field."""
    name = operator_name(max(table.scalar(0, "b"), table.scalar(3, "i")))
    return name, table.scalar(2, "i", 1), table.text(1) if name == CUSTOM else ""


def _subgraph(table: Table, codes: _Codes, buffers: int) -> SubgraphRecord:
    tensors = tuple(_tensor(item, buffers) for item in table.tables(0))
    record = SubgraphRecord(
        name=table.text(4),
        tensors=tensors,
        inputs=table.integers(1),
        outputs=table.integers(2),
        operators=tuple(_operator(item, codes, len(tensors)) for item in table.tables(3)),
    )
    _all_within((*record.inputs, *record.outputs), len(tensors), "the graph names tensor")
    return record


def _tensor(table: Table, buffers: int) -> TensorRecord:
    code = table.scalar(1, "b")
    name = table.text(3)
    return TensorRecord(
        name=name,
        dtype=element_type(code),
        shape=_shape(table, 0, name),
        buffer=_within(table.scalar(2, "I"), buffers, f"tensor '{name}' names buffer"),
        signature=_shape(table, 7, name) if table.has(7) else None,
        quantization=_quantization(table.table(4)),
        sparsity=_sparsity(table.table(6)),
        variable=bool(table.scalar(5, "?")),
        has_rank=bool(table.scalar(8, "?")),
        type_code=code,
        variants=sum(1 for _ in table.tables(9)),
    )


def _shape(table: Table, slot: int, name: str) -> Shape:
    rank = table.vector(slot, np.int32).size
    if rank > MAX_RANK:
        raise ValueError(f"tensor '{name}' has {rank} dimensions; at most {MAX_RANK} are supported")
    return table.integers(slot)


def _quantization(table: Table | None) -> QuantizationRecord | None:
    if table is None:
        return None
    return QuantizationRecord(
        scale=table.floats(2),
        zero_point=table.integers(3, np.int64),
        axis=table.scalar(6, "i"),
        minimum=table.floats(0),
        maximum=table.floats(1),
        details=table.scalar(4, "B"),
    )


def _sparsity(table: Table | None) -> SparsityRecord | None:
    if table is None:
        return None
    return SparsityRecord(
        traversal_order=table.integers(0),
        block_map=table.integers(1),
        dimensions=tuple(_dimension(item) for item in table.tables(2)),
    )


def _dimension(table: Table) -> DimensionRecord:
    if table.scalar(0, "b") == 0:
        return DimensionRecord(table.scalar(1, "i"))
    segments, indices = (_indices(table, slot) for slot in (2, 4))
    return DimensionRecord(0, segments, indices)


def _indices(table: Table, slot: int) -> np.ndarray:
    kind, values = table.scalar(slot, "B"), table.table(slot + 1)
    if kind not in _INDEX_TYPES or values is None:
        raise ValueError("a sparse tensor has no indices")
    return values.vector(0, _INDEX_TYPES[kind])


def _operator(table: Table, codes: _Codes, tensors: int) -> OperatorRecord:
    index = _within(table.scalar(0, "I"), len(codes), "an operator names operator code")
    op, version, custom_code = codes[index]
    inputs, outputs = table.integers(1), table.integers(2)
    _all_within((i for i in inputs if i != -1), tensors, f"an operator {op} reads tensor")
    _all_within(outputs, tensors, f"an operator {op} writes tensor")
    offset, size = table.scalar(9, "Q"), table.scalar(10, "Q")
    return OperatorRecord(
        op=op,
        version=version,
        inputs=inputs,
        outputs=outputs,
        options=_options(table),
        custom_code=custom_code,
        custom_options=(
            table.buffer.view(offset, np.dtype(np.uint8), size)
            if offset > 1
            else table.vector(5, np.uint8)
        ),
        intermediates=table.integers(8),
        mutating=tuple(bool(item) for item in table.integers(7, np.uint8)),
    )


def _options(table: Table) -> object | None:
    """Return the options; newer operators have theirs in a second union."""
    second = table.scalar(11, "B")
    if second:
        return read_options(SECOND + second, table.table(12))
    return read_options(table.scalar(3, "B"), table.table(4))


def _signature(table: Table, subgraphs: tuple[SubgraphRecord, ...]) -> SignatureRecord:
    index = _within(table.scalar(4, "I"), len(subgraphs), "a signature names graph")
    count = len(subgraphs[index].tensors)
    inputs, outputs = (
        {
            item.text(0): _within(item.scalar(1, "I"), count, "a signature names tensor")
            for item in table.tables(slot)
        }
        for slot in (0, 1)
    )
    return SignatureRecord(table.text(2), inputs, outputs, index)


def _within(index: int, count: int, what: str) -> int:
    if not 0 <= index < count:
        raise ValueError(f"{what} {index}, but there are only {count}")
    return index


def _all_within(indices: Iterable[int], count: int, what: str) -> None:
    for index in indices:
        _within(index, count, what)
