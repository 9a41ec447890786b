"""Makes a Model of a TFLite file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fourfold.custom import how_to_register
from fourfold.errors import InputError, ModelError, Refusal, UnsupportedError, nearest
from fourfold.formats.budget import Budget
from fourfold.formats.conversion import SEE_OPS, unsupported
from fourfold.formats.model import Model, Signature
from fourfold.formats.names import unique
from fourfold.formats.options import ReadOptions
from fourfold.formats.source import ModelSource
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.file import read_file
from fourfold.formats.tflite.records import FileRecord, SignatureRecord, SubgraphRecord
from fourfold.formats.tflite.source_graph import TFLiteSourceGraph
from fourfold.formats.tflite.tensors import declared, sizes_left_open, tensor_names
from fourfold.formats.tflite.walk import Converted, convert_subgraph


def read(source: ModelSource, options: ReadOptions) -> Model:
    """The model; without a signature its first graph is the main one."""
    file = read_file(source.content, source.title)
    main = _choose(file, options.signature)
    parts = [*_others(file, main, options.quantized)]
    record = file.subgraphs[main]
    found = parts[main] = convert_subgraph(file, record, options, Budget.of(file.size))
    if found.graph is None:
        raise _unsupported(source.title, record, found.refusals)
    return Model(
        main=found.graph,
        input_names=found.graph.arguments,
        output_names=unique(record.tensors[i].name or found.names[i] for i in record.outputs),
        open_sizes=tuple(sizes_left_open(record.tensors[i]) for i in record.inputs),
        graphs=tuple(part.graph for part in parts),
        signatures={item.key: _signature(item, file, parts) for item in file.signatures},
        description=file.description,
        metadata=file.metadata,
        refusals=tuple(refusal for part in parts for refusal in part.refusals),
        source_graph=TFLiteSourceGraph(
            source.content, file, main, found.names, found.known, found.changed
        ),
    )


def operators() -> Mapping[str, str]:
    return {op: rule.summary for op, rule in rules().items()}


def _others(file: FileRecord, main: int, quantized: bool) -> Iterator[Converted]:
    """The other graphs. What is wrong there is no error: only their callers know their shapes."""
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


def _choose(file: FileRecord, signature: str | None) -> int:
    if signature is None:
        return 0
    keys = {item.key: item.subgraph for item in file.signatures}
    if signature not in keys:
        why = "the model does not have it"
        raise InputError(f"no signature '{signature}'", why, nearest(signature, keys))
    return keys[signature]


def _unsupported(
    title: str, record: SubgraphRecord, refusals: tuple[Refusal, ...]
) -> UnsupportedError:
    fix = f"leave strict out, so that the CPU runs these; {SEE_OPS}"
    refused = {refusal.op for refusal in refusals}
    for operator in record.operators:
        if operator.custom_code and operator.title in refused:
            inputs = [declared(record.tensors[i]) for i in operator.inputs if i != -1]
            outputs = [declared(record.tensors[i]) for i in operator.outputs]
            fix = how_to_register(operator.custom_code, inputs, outputs)
            break
    return unsupported(title, refusals, fix)


def _signature(item: SignatureRecord, file: FileRecord, parts: list[Converted]) -> Signature:
    """Its names, each for the value that a graph knows; an output may be a copy made for it."""
    part, record = parts[item.subgraph], file.subgraphs[item.subgraph]
    final = dict(zip(record.outputs, part.graph.results, strict=True)) if part.graph else {}
    return Signature(
        inputs={name: part.names[index] for name, index in item.inputs.items()},
        outputs={name: final.get(index, part.names[index]) for name, index in item.outputs.items()},
        subgraph=item.subgraph,
    )
