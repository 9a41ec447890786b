"""Reads a TFLite file into records, checks every number, and converts them to a Model."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fourfold.custom import registration_example
from fourfold.errors import InputError, ModelError, Refusal, UnsupportedError, nearest
from fourfold.formats.budget import MAX_RANK, Budget
from fourfold.formats.conversion import ON_THE_CPU, SEE_OPS, report_damage, unsupported
from fourfold.formats.inputs import ReadOptions
from fourfold.formats.model import Model
from fourfold.formats.names import unique
from fourfold.formats.rule_table import summary
from fourfold.formats.source import Content, ModelSource
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.flatbuffer import FlatBuffer, Table
from fourfold.formats.tflite.metadata import EndTensors, read_metadata
from fourfold.formats.tflite.options import SECOND, CallOnceOptions, read_options
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
from fourfold.formats.tflite.source_graph import TFLiteSourceGraph
from fourfold.formats.tflite.tensors import check_texts, declared, sizes_left_open, tensor_names
from fourfold.formats.tflite.walk import Converted, convert_subgraph
from fourfold.graph.metadata import Signature
from fourfold.types import DType, Shape


@dataclass(frozen=True)
class EntryPoint:
    """The graph that a caller calls.

    `file` has it with the inputs and outputs that the caller sees: a signature may omit outputs, or
    return one under two names. `inputs` maps tensors to the caller's names if these differ.
    """

    file: FileRecord
    subgraph: int
    inputs: Mapping[str, str]
    output_names: tuple[str, ...]
    ends: EndTensors

    @property
    def record(self) -> SubgraphRecord:
        return self.file.subgraphs[self.subgraph]

    def input_names(self, values: Sequence[str]) -> tuple[str, ...]:
        """Return the caller's names of the graph's arguments."""
        return unique(self.inputs.get(value, value) for value in values)

    def own_shapes(self, shapes: Mapping[str, Shape]) -> Mapping[str, Shape]:
        """Return shapes by the names of the file's tensors instead of the caller's."""
        own = {name: value for value, name in self.inputs.items()}
        return {own.get(name, name): shape for name, shape in shapes.items()}


def find_entry_point(file: FileRecord, signature: str | None) -> EntryPoint:
    """Return the entry point of a signature; without one, the first graph."""
    if signature is None:
        return _by_tensor_names(file)
    by_key = {item.key: item for item in file.signatures}
    if signature not in by_key:
        names = ", ".join(f"'{key}'" for key in by_key)
        why = f"its signatures are {names}" if by_key else "the model has no signatures"
        fix = nearest(signature, by_key) if by_key else "leave the signature out"
        raise InputError(f"the model has no signature '{signature}'", why, fix)
    return _by_signature(file, by_key[signature])


def _by_tensor_names(file: FileRecord) -> EntryPoint:
    record, names = file.subgraphs[0], tensor_names(file.subgraphs[0])
    outputs = unique(record.tensors[i].name or names[i] for i in record.outputs)
    ends = EndTensors(0, range(len(record.inputs)), range(len(record.outputs)))
    return EntryPoint(file, 0, {}, outputs, ends)


def _by_signature(file: FileRecord, item: SignatureRecord) -> EntryPoint:
    """Return the entry point of a signature.

    Outputs are in the order of the graph's, which most callers know; signatures are sorted by name.
    """
    record = file.subgraphs[item.subgraph]
    tensors = tensor_names(record)
    positions = {index: position for position, index in reversed([*enumerate(record.outputs)])}
    last = len(record.outputs)
    outputs = sorted(item.outputs.items(), key=lambda one: (positions.get(one[1], last), one[0]))
    graphs = list(file.subgraphs)
    graphs[item.subgraph] = replace(record, outputs=tuple(index for _, index in outputs))
    output_positions = [positions.get(index, last) for _, index in outputs]
    return EntryPoint(
        replace(file, subgraphs=tuple(graphs)),
        item.subgraph,
        {tensors[index]: name for name, index in item.inputs.items()},
        tuple(name for name, _ in outputs),
        EndTensors(item.subgraph, range(len(record.inputs)), output_positions),
    )


def describe_signatures(file: FileRecord, parts: Sequence[Converted]) -> dict[str, Signature]:
    """Return all signatures with the values of their names, by key."""
    final: dict[int, dict[int, str]] = {}  # the results of each graph by their tensors
    for number in dict.fromkeys(item.subgraph for item in file.signatures):
        outputs, graph = file.subgraphs[number].outputs, parts[number].graph
        final[number] = dict(zip(outputs, graph.results, strict=True)) if graph else {}
    return {
        item.key: _describe_signature(item, parts[item.subgraph].names, final[item.subgraph])
        for item in file.signatures
    }


def _describe_signature(
    item: SignatureRecord, names: Sequence[str], final: Mapping[int, str]
) -> Signature:
    """Return a signature with the values of its names; an output may be a copy made for it."""
    return Signature(
        inputs={name: names[index] for name, index in item.inputs.items()},
        outputs={name: final.get(index, names[index]) for name, index in item.outputs.items()},
        subgraph=item.subgraph,
    )


def read(source: ModelSource, options: ReadOptions) -> Model:
    """Read the model; without a signature its first graph is the main one."""
    entry = find_entry_point(read_file(source.content, source.title), options.signature)
    file, main, record = entry.file, entry.subgraph, entry.record
    parts = [*_others(file, main, options.quantized)]
    options = replace(options, shapes=entry.own_shapes(options.shapes))
    converted, holds_variables = _convert_main(file, record, options)
    parts[main] = converted
    if converted.graph is None:
        raise _unsupported(source.title, record, converted.refusals)
    return Model(
        main=converted.graph,
        input_names=entry.input_names(converted.graph.arguments),
        output_names=entry.output_names,
        open_sizes=tuple(sizes_left_open(record.tensors[i]) for i in record.inputs),
        graphs=tuple(part.graph for part in parts),
        signatures=describe_signatures(file, parts),
        description=file.description,
        read_metadata=partial(read_metadata, file, source.content, entry.ends),
        refusals=tuple(refusal for part in parts for refusal in part.refusals),
        source_graph=TFLiteSourceGraph(
            source.content, file, main, converted.names, converted.known, converted.changed
        ),
        holds_variables=holds_variables,
    )


def _convert_main(
    file: FileRecord, record: SubgraphRecord, options: ReadOptions
) -> tuple[Converted, bool]:
    """Convert the main graph. Resource variables become states of the graph, which the second
    result says, if every operator can be converted; otherwise the CPU engine holds them.
    """
    if not any(_uses_variables(operator) for operator in record.operators):
        return convert_subgraph(file, record, options, Budget.of(file.size)), False
    if options.variables == "auto":
        strict = replace(options, keep_unsupported=False)
        converted = convert_subgraph(file, record, strict, Budget.of(file.size))
        if converted.graph is not None or not options.keep_unsupported:
            return converted, True
    return convert_subgraph(file, record, options, Budget.of(file.size)), False


def _uses_variables(operator: OperatorRecord) -> bool:
    rule = rules().get(operator.title)
    return isinstance(operator.options, CallOnceOptions) or (rule is not None and rule.resources)


def operators() -> Mapping[str, str]:
    return {op: summary(rule.convert) for op, rule in rules().items()}


def _others(file: FileRecord, main: int, quantized: bool) -> Iterator[Converted]:
    """Convert the other graphs; errors are refusals there, since only callers know their shapes."""
    budget, options = Budget.of(file.size), ReadOptions(quantized=quantized)
    for index, record in enumerate(file.subgraphs):
        if index == main:
            yield Converted(None, (), ())
            continue
        try:
            yield convert_subgraph(file, record, options, budget)
        except ModelError as error:
            refusal = Refusal(record.name, "graph", f"{error.what}: {error.why}")
            yield Converted(None, tensor_names(record), (refusal,))


def _unsupported(
    title: str, record: SubgraphRecord, refusals: tuple[Refusal, ...]
) -> UnsupportedError:
    fix = f"{ON_THE_CPU}; {SEE_OPS}"
    refused = {refusal.op for refusal in refusals}
    for operator in record.operators:
        if operator.custom_code and operator.title in refused:
            inputs = [declared(record.tensors[i]) for i in operator.inputs if i != -1]
            outputs = [declared(record.tensors[i]) for i in operator.outputs]
            fix = registration_example(operator.custom_code, inputs, outputs)
            break
    return unsupported(title, refusals, fix)


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
        has_text_name=table.is_text(3),
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
        options_code=table.scalar(3, "B"),
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
