"""Reads a TFLite file into a Model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fourfold.custom import registration_example
from fourfold.errors import InputError, ModelError, Refusal, UnsupportedError, nearest
from fourfold.formats.budget import Budget
from fourfold.formats.conversion import ON_THE_CPU, SEE_OPS, unsupported
from fourfold.formats.inputs import ReadOptions
from fourfold.formats.model import Model
from fourfold.formats.names import unique
from fourfold.formats.rule_table import summary
from fourfold.formats.source import ModelSource
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.file import read_file
from fourfold.formats.tflite.metadata import EndTensors, read_metadata
from fourfold.formats.tflite.options import CallOnceOptions
from fourfold.formats.tflite.records import (
    FileRecord,
    OperatorRecord,
    SignatureRecord,
    SubgraphRecord,
)
from fourfold.formats.tflite.source_graph import TFLiteSourceGraph
from fourfold.formats.tflite.tensors import declared, sizes_left_open, tensor_names
from fourfold.formats.tflite.walk import Converted, convert_subgraph
from fourfold.graph.metadata import Signature
from fourfold.types import Shape


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


def describe_signature(item: SignatureRecord, file: FileRecord, part: Converted) -> Signature:
    """Return a signature with the values of its names; an output may be a copy made for it."""
    record = file.subgraphs[item.subgraph]
    final = dict(zip(record.outputs, part.graph.results, strict=True)) if part.graph else {}
    return Signature(
        inputs={name: part.names[index] for name, index in item.inputs.items()},
        outputs={name: final.get(index, part.names[index]) for name, index in item.outputs.items()},
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
    signatures = {
        item.key: describe_signature(item, file, parts[item.subgraph]) for item in file.signatures
    }
    return Model(
        main=converted.graph,
        input_names=entry.input_names(converted.graph.arguments),
        output_names=entry.output_names,
        open_sizes=tuple(sizes_left_open(record.tensors[i]) for i in record.inputs),
        graphs=tuple(part.graph for part in parts),
        signatures=signatures,
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
