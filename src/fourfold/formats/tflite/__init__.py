"""TFLite files: `read` makes a Model of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fourfold.custom import how_to_register
from fourfold.errors import InputError, ModelError, Refusal, UnsupportedError, nearest
from fourfold.formats.model import Model, Signature, unique
from fourfold.formats.tflite.convert._builder import Budget
from fourfold.formats.tflite.flatbuffer import Content
from fourfold.formats.tflite.origin import FileOrigin
from fourfold.formats.tflite.read import read_file
from fourfold.formats.tflite.records import FileRecord, SignatureRecord, SubgraphRecord
from fourfold.formats.tflite.tensors import declared, tensor_names
from fourfold.formats.tflite.walk import Converted, convert_subgraph
from fourfold.types import Shape


def matches(content: Content) -> bool:
    return content[4:8] == b"TFL3"


def read(
    content: Content,
    title: str,
    shapes: Mapping[str, Shape],
    signature: str | None,
    foreign: bool = False,
    quantized: bool = True,
    follow: bool = True,
) -> Model:
    """The model. `signature` chooses the main graph; without it the first one is."""
    file = read_file(content, title)
    main = _choose(file, signature)
    parts = [*_others(file, main, quantized)]
    record = file.subgraphs[main]
    budget = Budget.of(file.size)
    parts[main] = convert_subgraph(file, record, shapes, budget, foreign, quantized, follow)
    graph = parts[main].graph
    if graph is None:
        raise _unsupported(title, record, parts[main].refusals)
    return Model(
        main=graph,
        graphs=tuple(part.graph for part in parts),
        input_names=graph.arguments,
        output_names=unique(record.tensors[i].name or parts[main].names[i] for i in record.outputs),
        signatures={item.key: _signature(item, file, parts) for item in file.signatures},
        description=file.description,
        metadata=file.metadata,
        refusals=tuple(refusal for part in parts for refusal in part.refusals),
        format="TFLite",
        origin=FileOrigin(
            content, file, main, parts[main].names, parts[main].known, parts[main].changed
        ),
    )


def _others(file: FileRecord, main: int, quantized: bool) -> Iterator[Converted]:
    """The other graphs. What is wrong there is no error: only their callers know their shapes."""
    budget = Budget.of(file.size)
    for index, record in enumerate(file.subgraphs):
        if index == main:
            yield Converted(None, (), ())
            continue
        try:
            yield convert_subgraph(file, record, {}, budget, quantized=quantized)
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
    count = f"{len(refusals)} node{'s' if len(refusals) > 1 else ''}"
    fix = "leave strict out, so that the CPU runs these; 'fourfold ops' lists what is supported"
    refused = {refusal.op for refusal in refusals}
    for operator in record.operators:
        if operator.custom_code and operator.title in refused:
            inputs = [declared(record.tensors[i]) for i in operator.inputs if i != -1]
            outputs = [declared(record.tensors[i]) for i in operator.outputs]
            fix = how_to_register(operator.custom_code, inputs, outputs)
            break
    return UnsupportedError(f"{title} has {count} that cannot be converted", refusals, fix)


def _signature(item: SignatureRecord, file: FileRecord, parts: list[Converted]) -> Signature:
    """Its names, each for the value that a graph knows; an output may be a copy made for it."""
    part, record = parts[item.subgraph], file.subgraphs[item.subgraph]
    final = dict(zip(record.outputs, part.graph.results, strict=True)) if part.graph else {}
    return Signature(
        inputs={name: part.names[index] for name, index in item.inputs.items()},
        outputs={name: final.get(index, part.names[index]) for name, index in item.outputs.items()},
        subgraph=item.subgraph,
    )
