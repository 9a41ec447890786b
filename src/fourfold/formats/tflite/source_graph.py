"""TFLiteSourceGraph: the main graph of a file, whose parts can be written as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fourfold.errors import Refusal, UnsupportedError
from fourfold.formats.model import SourceGraph
from fourfold.formats.source import Content
from fourfold.formats.tflite.foreign import CALLING, called_graphs, unit_name
from fourfold.formats.tflite.records import FileRecord, OperatorRecord, SubgraphRecord
from fourfold.formats.tflite.tensors import quantization_of
from fourfold.formats.tflite.verify import refuse_graph, refuse_operator
from fourfold.formats.tflite.write import Excerpt, first_outputs, write_excerpt
from fourfold.types import DType, Quantization, to_integers

COMPOSITE = "STABLEHLO_COMPOSITE"
# Stands for all resources: an operator that calls another graph may use any of them.
RESOURCES = "resources"


@dataclass(frozen=True)
class TFLiteSourceGraph(SourceGraph):
    """The main graph of a file, with its units and tensors by name."""

    source: Content
    file: FileRecord
    main: int
    names: tuple[str, ...]
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    changed: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def graph(self) -> SubgraphRecord:
        return self.file.subgraphs[self.main]

    @property
    def content(self) -> bytes:
        """Return a file whose first graph is this one, since engines run the first one."""
        if self.main == 0 and self.outputs == first_outputs(self.source):
            return bytes(self.source)
        ports = ([self.names[i] for i in numbers] for numbers in (self.graph.inputs, self.outputs))
        return self.write(tuple(self.units), *ports)

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.graph.outputs

    @cached_property
    def units(self) -> Mapping[str, int]:
        pairs = enumerate(self.graph.operators)
        return {unit_name(record, number, self.names): number for number, record in pairs}

    @cached_property
    def titles(self) -> Mapping[str, str]:
        return {name: self.graph.operators[i].title for name, i in self.units.items()}

    @cached_property
    def states(self) -> Mapping[str, tuple[str, ...]]:
        by_unit = {name: tuple(self._states(i)) for name, i in self.units.items()}
        return {name: shared for name, shared in by_unit.items() if shared}

    def _states(self, number: int) -> Iterator[str]:
        """Yield the states of an operator: variables, and values private to an interpreter."""
        record = self.graph.operators[number]
        for index in {*record.inputs, *record.outputs} - {-1}:
            tensor = self.graph.tensors[index]
            if tensor.dtype in (DType.RESOURCE, DType.VARIANT, None):
                yield RESOURCES
            elif tensor.variable or tensor.dtype is DType.STRING:
                yield self.names[index]
        if record.op == "CALL_ONCE" or (record.op in CALLING and self._has_resources):
            yield RESOURCES

    @cached_property
    def _has_resources(self) -> bool:
        tensors = (tensor for graph in self.file.subgraphs for tensor in graph.tensors)
        return any(tensor.dtype is DType.RESOURCE for tensor in tensors)

    @cached_property
    def values(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def _number(self, value: str) -> int:
        number = self.tensor(value)
        assert isinstance(number, int), f"'{value}' is not a tensor of the file"
        return number

    def unit(self, node: str) -> str:
        own = node in self.units or self.tensor(node) is None
        name = node if own else self.names[self._number(node)]
        if name in self.units:
            return name
        return next(
            (composite for composite in self._composites if node.startswith(f"{composite}/")), node
        )

    @cached_property
    def _composites(self) -> tuple[str, ...]:
        """Return units that are whole graphs, whose name is the prefix of their nodes."""
        return tuple(name for name, title in self.titles.items() if title == COMPOSITE)

    def reads(self, unit: str) -> tuple[str, ...]:
        record = self.graph.operators[self.units[unit]]
        read = [i for i in record.inputs if i != -1 and not self._holds(i)]
        return tuple(self.names[i] for i in read if self.names[i] not in self.known)

    def writes(self, unit: str) -> tuple[str, ...]:
        return tuple(self.names[i] for i in self.graph.operators[self.units[unit]].outputs)

    def flaw(self, unit: str) -> str:
        record = self.graph.operators[self.units[unit]]
        return self._graph_flaw or refuse_operator(self.file, self.graph, record)

    @cached_property
    def _graph_flaw(self) -> str:
        return refuse_graph(self.file, self.graph)

    def _holds(self, index: int) -> bool:
        """Return True if the file has the content of a tensor; empty constants have no bytes."""
        tensor = self.graph.tensors[index]
        stored = index not in self._computed or self.file.buffers[tensor.buffer].size > 0
        return tensor.variable or stored

    @cached_property
    def _computed(self) -> frozenset[int]:
        """Return the tensors that a caller passes or an operator writes."""
        written = (index for record in self.graph.operators for index in record.outputs)
        return frozenset((*self.graph.inputs, *written))

    def grid(self, value: str) -> tuple[Quantization, DType] | None:
        tensor = self.graph.tensors[self._number(value)]
        quantization = quantization_of(tensor) if tensor.quantized else None
        return (
            None if quantization is None or tensor.dtype is None else (quantization, tensor.dtype)
        )

    def rounds(self, unit: str) -> bool:
        record, tensors = self.graph.operators[self.units[unit]], self.graph.tensors
        weights = (tensors[i].quantized for i in record.inputs if i != -1 and self._holds(i))
        return any(weights) and not any(tensors[i].quantized for i in record.outputs)

    def write(
        self,
        units: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> bytes:
        operators = sorted(self.units[name] for name in units)
        calls = any(self._calls(self.graph.operators[number]) for number in operators)
        if calls and self.main:
            self._check_calls()
        excerpt = Excerpt(
            operators=operators,
            inputs=[self._number(name) for name in inputs],
            outputs=[self._number(name) for name in outputs],
            constants=self._folded(operators),
            subgraph=self.main,
            calls=calls,
        )
        return write_excerpt(self.source, excerpt)

    def _check_calls(self) -> None:
        """Raise UnsupportedError if this graph calls the first one, which it replaces."""
        visited, pending = set[int](), [self.main]
        while pending:
            graph = pending.pop()
            if graph not in visited and graph < len(self.file.subgraphs):
                visited.add(graph)
                operators = self.file.subgraphs[graph].operators
                pending += (one for record in operators for one in called_graphs(record))
        if 0 in visited:
            refusal = Refusal(self.graph.name, "graph", "it calls the first graph of the file")
            what, fix = (
                "this signature cannot be split between devices",
                "export each signature as its own model",
            )
            raise UnsupportedError(what, [refusal], fix)

    def _folded(self, operators: Sequence[int]) -> Mapping[int, np.ndarray]:
        """Return constants of these operators that were computed or changed while reading."""
        read = {i for number in operators for i in self.graph.operators[number].inputs} - {-1}
        arrays = {i: self.known.get(self.names[i]) for i in sorted(read) if not self._holds(i)}
        arrays |= {i: self.changed[self.names[i]] for i in read if self.names[i] in self.changed}
        return {i: self._as_stored(i, array) for i, array in arrays.items() if array is not None}

    def _as_stored(self, index: int, array: np.ndarray) -> np.ndarray:
        """Return a constant in the file's element type."""
        grid = self.grid(self.names[index])
        return array if grid is None else to_integers(array, *grid)

    @staticmethod
    def _calls(record: OperatorRecord) -> bool:
        return record.op in CALLING
