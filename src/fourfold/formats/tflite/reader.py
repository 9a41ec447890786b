"""Reads a TFLite file into a Model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from fourfold.custom import how_to_register
from fourfold.errors import ModelError, Refusal, UnsupportedError
from fourfold.formats.budget import Budget
from fourfold.formats.conversion import ON_THE_CPU, SEE_OPS, unsupported
from fourfold.formats.model import Model
from fourfold.formats.options import ReadOptions
from fourfold.formats.rule_table import summary
from fourfold.formats.source import ModelSource
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.file import read_file
from fourfold.formats.tflite.metadata import read_metadata
from fourfold.formats.tflite.records import FileRecord, SubgraphRecord
from fourfold.formats.tflite.signatures import describe_signature, find_entry_point
from fourfold.formats.tflite.source_graph import TFLiteSourceGraph
from fourfold.formats.tflite.tensors import declared, sizes_left_open, tensor_names
from fourfold.formats.tflite.walk import Converted, convert_subgraph


def read(source: ModelSource, options: ReadOptions) -> Model:
    """Read the model; without a signature its first graph is the main one."""
    entry = find_entry_point(read_file(source.content, source.title), options.signature)
    file, main, record = entry.file, entry.subgraph, entry.record
    parts = [*_others(file, main, options.quantized)]
    options = replace(options, shapes=entry.own_shapes(options.shapes))
    converted = parts[main] = convert_subgraph(file, record, options, Budget.of(file.size))
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
    )


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
            fix = how_to_register(operator.custom_code, inputs, outputs)
            break
    return unsupported(title, refusals, fix)
