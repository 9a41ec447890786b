"""ClaimableGraph: a graph of the delegate's model, and subsets of it as model files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from fourfold.backends.cpu.litert import ENGINE as LITERT
from fourfold.compiler.partition import Costs, find_units
from fourfold.device import DeviceInfo
from fourfold.errors import ModelError, Refusal
from fourfold.formats import Model, ReadOptions, read_model
from fourfold.formats.tflite.foreign import CALLING, unit_name
from fourfold.formats.tflite.records import FileRecord, OperatorRecord
from fourfold.formats.tflite.source_graph import TFLiteSourceGraph
from fourfold.formats.tflite.write import Excerpt, write_excerpt
from fourfold.integrations.delegate.host import NodeSubset
from fourfold.integrations.delegate.options import GpuOptions
from fourfold.ops.foreign import Foreign
from fourfold.types import Shape

STATE = "it has state between runs, which stays with the interpreter"
OUT_OF_RANGE = "it is outside first_delegate_node and last_delegate_node"


@dataclass(frozen=True)
class BorderTensor:
    """An input or output of a subset, with its shape in the file.

    `is_output` is True for an output of the graph, `read_outside` if operators outside the subset
    read it.
    """

    number: int
    name: str
    shape: Shape
    is_output: bool
    read_outside: bool


@dataclass(frozen=True)
class SubsetFile:
    """A subset of a graph as a file. Its inputs are those of the subset that are not constants."""

    graph: ClaimableGraph
    operators: frozenset[int]
    content: bytes
    inputs: tuple[BorderTensor, ...]
    outputs: tuple[BorderTensor, ...]


@dataclass(frozen=True)
class ClaimableGraph:
    """One graph of the model. Operators and tensors have the numbers of the file."""

    model: Model
    origin: TFLiteSourceGraph
    options: GpuOptions

    @property
    def file(self) -> FileRecord:
        return self.origin.file

    @property
    def operators(self) -> tuple[OperatorRecord, ...]:
        return self.origin.graph.operators

    @cached_property
    def refusals(self) -> Mapping[int, str]:
        """Operators that cannot be claimed, with reasons, as far as the model file shows."""
        reasons = {
            number: STATE for number in range(len(self.operators)) if self._has_state(number)
        }
        for node in self.model.main.nodes:
            if isinstance(node.attributes, Foreign):
                reasons.update(dict.fromkeys(node.attributes.operators, node.attributes.reason))
        for number in range(len(self.operators)):
            if not self.options.covers(number):
                reasons.setdefault(number, OUT_OF_RANGE)
        return reasons

    def _has_state(self, number: int) -> bool:
        tensors = self.origin.graph.tensors
        return any(tensors[i].variable for i in self.operators[number].inputs if i != -1)

    @cached_property
    def fixed(self) -> frozenset[int]:
        """Operators that read only constants of the file, such as those that unpack them."""
        constants = set(range(len(self.origin.graph.tensors))) - self._computed
        constants -= {i for i, tensor in enumerate(self.origin.graph.tensors) if tensor.variable}
        operators = set()
        for number, record in enumerate(self.operators):
            constant = record.inputs and constants.issuperset({*record.inputs} - {-1})
            if constant and number not in self.refusals:
                operators.add(number)
                constants.update(record.outputs)
        return frozenset(operators)

    @cached_property
    def _computed(self) -> set[int]:
        """Tensors that have values only at run time."""
        written = {index for record in self.operators for index in record.outputs}
        return {*self.origin.graph.inputs, *written}

    @cached_property
    def _writers(self) -> Mapping[int, int]:
        return {i: number for number, record in enumerate(self.operators) for i in record.outputs}

    def readers(self, number: int) -> Iterator[int]:
        """Return the operators that read an operator's results; -1 for the caller of the graph."""
        results = set(self.operators[number].outputs)
        if results.intersection(self.origin.outputs):
            yield -1
        yield from (i for i, one in enumerate(self.operators) if results.intersection(one.inputs))

    def readers_of(self, tensor: int) -> set[int]:
        """Return the operators that read a tensor."""
        return {i for i, one in enumerate(self.operators) if tensor in one.inputs}

    def write_subset(self, subset: NodeSubset) -> SubsetFile:
        """Write the subset with the fixed operators it needs, without their results as outputs."""
        operators, pending = set(subset.nodes), list(subset.nodes)
        for number in pending:
            for index in self.operators[number].inputs:
                writer = self._writers.get(index, -1)
                if writer in self.fixed and writer not in operators:
                    operators.add(writer)
                    pending.append(writer)
        results = {index for number in operators for index in self.operators[number].outputs}
        inputs = tuple(i for i in subset.inputs if i in self._computed and i not in results)
        outputs = tuple(i for i in subset.outputs if self._writers[i] not in self.fixed)
        excerpt = Excerpt(
            operators=sorted(operators),
            inputs=inputs,
            outputs=outputs,
            subgraph=self.origin.main,
            calls=any(self.operators[number].op in CALLING for number in operators),
        )
        content = write_excerpt(self.origin.source, excerpt)
        borders = (
            tuple(self._border(i, operators) for i in tensors) for tensors in (inputs, outputs)
        )
        return SubsetFile(self, frozenset(operators), content, *borders)

    def _border(self, tensor: int, operators: set[int]) -> BorderTensor:
        return BorderTensor(
            tensor,
            self.origin.names[tensor],
            self.origin.graph.tensors[tensor].shape,
            is_output=tensor in self.origin.outputs,
            read_outside=not operators.issuperset(self.readers_of(tensor)),
        )

    def blame(self, subset: NodeSubset, refusals: Iterable[Refusal]) -> dict[int, str]:
        """Return the nodes that refusals name, or all of the subset if they name none of it."""
        blamed: dict[int, str] = {}
        for refusal in refusals:
            number = self.origin.units.get(self.origin.unit(refusal.node))
            if number in subset.nodes:
                blamed[number] = f"{refusal.op}: {refusal.reason}"
        reasons = "; ".join(str(refusal) for refusal in refusals)
        return blamed or dict.fromkeys(subset.nodes, reasons or "it was refused")

    def work(self, device: DeviceInfo, threads: int) -> Mapping[int, float]:
        """Return the estimated seconds of each operator on the CPU."""
        graph = self.model.main
        costs = Costs.of(graph, device, threads, LITERT.name)
        units = find_units(graph, self.origin)
        seconds = {unit.name: costs.unit(unit, LITERT.name) for unit in units}
        return {number: seconds.get(name, 0.0) for name, number in self.origin.units.items()}

    def title(self, number: int) -> tuple[str, str]:
        """Return the name and the kind of an operator."""
        record = self.operators[number]
        return unit_name(record, number, self.origin.names), record.title


def read_claimable(
    model: str | os.PathLike[str] | bytes, options: GpuOptions, number: int = 0
) -> ClaimableGraph | None:
    """Read a graph of the model; None for a graph that only other graphs call."""
    allowed = options.quantized_models_allowed
    read_options = ReadOptions(keep_unsupported=True, quantized=allowed)
    first = read_model(model, read_options)
    origin = first.source_graph
    if not isinstance(origin, TFLiteSourceGraph):
        raise ModelError(
            "the model of GpuDelegate is not a TFLite file",
            f"it is {first.format or 'of another format'}",
            "pass the file that the interpreter uses",
        )
    if number == 0:
        return ClaimableGraph(first, origin, options)
    keys = [item.key for item in origin.file.signatures if item.subgraph == number]
    if not keys:
        return None
    other = read_model(model, replace(read_options, signature=keys[0]))
    assert isinstance(other.source_graph, TFLiteSourceGraph)
    return ClaimableGraph(other, other.source_graph, options)
