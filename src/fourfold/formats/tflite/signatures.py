"""How a TFLite model is called: by its first graph, or by a signature, which names its ends."""

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
    """The graph that a caller calls. `file` has it with the ends that the caller sees: a signature
    may leave outputs out, or give one under two names. `inputs` has the caller's names of tensors
    that have other names in the file.
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
        """The caller's names of the graph's arguments."""
        return unique(self.inputs.get(value, value) for value in values)

    def own_shapes(self, shapes: Mapping[str, Shape]) -> Mapping[str, Shape]:
        """Shapes by the names of the file's tensors instead of the caller's."""
        own = {name: value for value, name in self.inputs.items()}
        return {own.get(name, name): shape for name, shape in shapes.items()}


def find_entry_point(file: FileRecord, signature: str | None) -> EntryPoint:
    """The graph of a signature; without one the first graph, by the names of its tensors."""
    if signature is None:
        return _by_tensor_names(file)
    found = {item.key: item for item in file.signatures}
    if signature not in found:
        known = ", ".join(f"'{key}'" for key in found)
        why = f"its signatures are {known}" if found else "the model has none"
        fix = nearest(signature, found) if found else "leave the signature out"
        raise InputError(f"the model has no signature '{signature}'", why, fix)
    return _by_signature(file, found[signature])


def _by_tensor_names(file: FileRecord) -> EntryPoint:
    record, names = file.subgraphs[0], tensor_names(file.subgraphs[0])
    outputs = unique(record.tensors[i].name or names[i] for i in record.outputs)
    ends = EndTensors(0, range(len(record.inputs)), range(len(record.outputs)))
    return EntryPoint(file, 0, {}, outputs, ends)


def _by_signature(file: FileRecord, item: SignatureRecord) -> EntryPoint:
    """Outputs in the order of the graph's, since that is the order in which most callers know
    them: signatures are sorted by name.
    """
    record = file.subgraphs[item.subgraph]
    tensors = tensor_names(record)
    places = {index: place for place, index in reversed([*enumerate(record.outputs)])}
    last = len(record.outputs)
    outputs = sorted(item.outputs.items(), key=lambda one: (places.get(one[1], last), one[0]))
    graphs = list(file.subgraphs)
    graphs[item.subgraph] = replace(record, outputs=tuple(index for _, index in outputs))
    seen = [places.get(index, last) for _, index in outputs]
    return EntryPoint(
        replace(file, subgraphs=tuple(graphs)),
        item.subgraph,
        {tensors[index]: name for name, index in item.inputs.items()},
        tuple(name for name, _ in outputs),
        EndTensors(item.subgraph, range(len(record.inputs)), seen),
    )


def describe_signature(item: SignatureRecord, file: FileRecord, part: Converted) -> Signature:
    """Its names, each for the value that a graph knows; an output may be a copy made for it."""
    record = file.subgraphs[item.subgraph]
    final = dict(zip(record.outputs, part.graph.results, strict=True)) if part.graph else {}
    return Signature(
        inputs={name: part.names[index] for name, index in item.inputs.items()},
        outputs={name: final.get(index, part.names[index]) for name, index in item.outputs.items()},
        subgraph=item.subgraph,
    )
