"""Finds the graph to call, and its inputs and outputs: by signature, or the first graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fourfold.errors import InputError, nearest
from fourfold.formats.names import unique
from fourfold.formats.tflite.metadata import EndTensors
from fourfold.formats.tflite.records import FileRecord, SignatureRecord, SubgraphRecord
from fourfold.formats.tflite.tensors import tensor_names
from fourfold.formats.tflite.walk import Converted
from fourfold.metadata import Signature
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
    found = {item.key: item for item in file.signatures}
    if signature not in found:
        names = ", ".join(f"'{key}'" for key in found)
        why = f"its signatures are {names}" if found else "the model has no signatures"
        fix = nearest(signature, found) if found else "leave the signature out"
        raise InputError(f"the model has no signature '{signature}'", why, fix)
    return _by_signature(file, found[signature])


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
