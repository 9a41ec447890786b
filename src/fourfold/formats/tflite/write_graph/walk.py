"""Walks the nodes of a graph in order and writes each; what cannot be written is collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.errors import Refusal, UnsupportedError
from fourfold.formats.refusal import Unconvertible
from fourfold.formats.tflite.records import FileRecord, SignatureRecord
from fourfold.formats.tflite.schema import ACTIVATIONS
from fourfold.formats.tflite.write_graph.draft import Draft, Tensor
from fourfold.formats.tflite.write_graph.expand import expand_nodes
from fourfold.formats.tflite.write_graph.forms import Forms, forms_of, real_forms
from fourfold.formats.tflite.write_graph.halves import keep_halves
from fourfold.formats.tflite.write_graph.node_writer import NeedsRealNumbers, NodeWriter
from fourfold.formats.tflite.write_graph.operators import rules
from fourfold.formats.tflite.write_graph.roundings import keep_roundings
from fourfold.formats.tflite.write_graph.states import States
from fourfold.formats.tflite.write_graph.values import Values
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph, Node
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType, Quantization

SCHEMA_VERSION = 3
SIGNATURE = "serving_default"
_FUSED = {name: number for number, name in enumerate(ACTIVATIONS) if name not in ("", "tanh")}


def file_of(model: WritableModel) -> FileRecord:
    """The file as records; raises an UnsupportedError that names all that cannot be written."""
    model = replace(model, graph=expand_nodes(model.graph))
    model = keep_halves(keep_roundings(model, rules()))
    values = _values(model)
    walk = _Walk(model, values, States(values))
    walk.take_inputs()
    for node, activation in fused_nodes(model):
        walk.write(node, activation)
    outputs = walk.give_outputs()
    if walk.refusals:
        raise UnsupportedError(
            "the model cannot be written as a TFLite file",
            walk.refusals,
            "write a .fourfold file, which holds any model, or cut these nodes off the graph",
        )
    return walk.file(outputs)


def _values(model: WritableModel) -> Values:
    graph = model.graph
    titles = dict(zip(graph.arguments, model.input_names, strict=True))
    for value, name in zip(graph.results, model.output_names, strict=True):
        if value not in titles and value not in graph.constants:
            titles[value] = name
    for node in graph.nodes:
        _name_source(node, model, titles)
    return Values(Draft(), graph, model.stored, _grids(graph), titles)


def _name_source(node: Node, model: WritableModel, titles: dict[str, str]) -> None:
    """What is an output without being changed is made under the name of the output."""
    graph, source, result = model.graph, node.inputs[0] if node.inputs else None, node.outputs[0]
    made = source is not None and source in graph.producers
    if source is not None and made and source not in titles and result in titles:
        grid = node.attributes
        if isinstance(grid, Quantize):
            form = StoredAs(grid.to, Quantization((grid.scale,), (grid.zero_point,)))
            same = model.stored.get(source) == form
        else:
            same = node.op == "identity" and source not in model.stored
        if same and source not in graph.outputs:
            titles[source] = titles.pop(result)


def _grids(graph: Graph) -> Mapping[str, Quantization]:
    """What the integers of values stand for that the graph itself has as integers."""
    found: dict[str, Quantization] = {}
    for node in graph.nodes:
        source = node.inputs[0] if isinstance(node.attributes, Dequantize) else None
        dtype = None if source is None else graph.types[source].dtype
        if source is not None and isinstance(node.attributes, Dequantize):
            zero_point = node.attributes.zero_point
            if dtype in (DType.I8, DType.U8) or (dtype is DType.I16 and zero_point == 0):
                found.setdefault(source, Quantization((node.attributes.scale,), (zero_point,)))
    return found


def fused_nodes(model: WritableModel) -> Iterator[tuple[Node, int]]:
    """Every node with the activation that it takes in: one that nobody else stands between."""
    graph, known = model.graph, rules()
    taken: set[str] = set()
    for node in graph.nodes:
        if node.outputs[0] in taken:
            continue
        rule, value = known.get(node.op), node.outputs[0]
        readers = graph.readers.get(value, ())
        alone = len(readers) == 1 and value not in graph.outputs and value not in model.stored
        if rule is None or not rule.fuses or not alone or readers[0].op not in _FUSED:
            yield node, 0
            continue
        final = readers[0].outputs[0]
        taken.add(final)
        yield node.renamed({value: final}), _FUSED[readers[0].op]


@dataclass
class _Walk:
    model: WritableModel
    values: Values
    states: States
    refusals: list[Refusal] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)

    @property
    def graph(self) -> Graph:
        return self.model.graph

    def take_inputs(self) -> None:
        sizes = self.model.open_sizes or ((),) * len(self.graph.arguments)
        for value, signature in zip(self.graph.arguments, sizes, strict=True):
            with self._noting("input", value):
                self.inputs.append(self.values.declare(value, signature))
        with self._noting("state", ", ".join(self.graph.states)):
            self.states.read()

    @contextmanager
    def _noting(self, op: str, *names: str) -> Iterator[None]:
        """Notes why something cannot be written; its values are there for what follows."""
        try:
            yield
        except Unconvertible as refusal:
            self.refusals.append(Refusal(names[0], op, str(refusal)))
            for value in names:
                if value in self.graph.types and value not in self.values.own:
                    self.values.own[value] = self.values.result(value, None, own=True)

    def write(self, node: Node, activation: int) -> None:
        """Adds the operators of a node, or the reason why there are none."""
        rule = rules().get(node.op)
        with self._noting(node.op, node.name or node.outputs[0], *node.outputs):
            if rule is None:
                raise Unconvertible("TFLite has no operator for it")
            try:
                rule.write(self._writer(node, activation, forms_of(node, rule, self.values)))
            except NeedsRealNumbers:
                rule.write(self._writer(node, activation, real_forms(node, rule, self.values)))

    def _writer(self, node: Node, activation: int, forms: Forms) -> NodeWriter:
        return NodeWriter(
            node,
            self.values,
            forms.inputs,
            forms.outputs,
            activation,
            forms.bias,
            forms.products,
            open_batch=any(sizes[:1] == (-1,) for sizes in self.model.open_sizes),
        )

    def file(self, outputs: list[Tensor]) -> FileRecord:
        draft, names = self.values.draft, self.model
        signature = SignatureRecord(
            SIGNATURE,
            {name: one.index for name, one in zip(names.input_names, self.inputs, strict=True)},
            {name: one.index for name, one in zip(names.output_names, outputs, strict=True)},
            0,
        )
        graphs = [draft.subgraph(self.graph.name, self.inputs, outputs)]
        if self.graph.states:
            graphs.append(self.states.starting_graph())
        buffers = tuple(draft.buffers)
        description = self.model.description
        return FileRecord(SCHEMA_VERSION, description, tuple(graphs), buffers, (signature,))

    def give_outputs(self) -> list[Tensor]:
        """The tensors of the outputs, each one of its own and under the caller's name."""
        found: list[Tensor] = []
        for value, name in zip(self.graph.results, self.model.output_names, strict=True):
            with self._noting("output", value):
                form = self.values.form(value)
                tensor = self.values.plain(value) if form is None else self.values.kept(value, form)
                found.append(self._own(tensor, name, [*self.inputs, *found]))
        with self._noting("state", ", ".join(self.graph.states)):
            self.states.keep()
        return found

    def _own(self, tensor: Tensor, name: str, taken: list[Tensor]) -> Tensor:
        """The tensor, or a copy where it is something else, too."""
        draft = self.values.draft
        record = draft.tensors[tensor.index]
        if tensor not in taken and not record.buffer and record.name == name:
            return tensor
        copy = draft.tensor(name, tensor.type, tensor.quantization)
        shape = draft.constant(f"{name}/shape", np.array(tensor.shape, np.int32))
        draft.operator("RESHAPE", [tensor, shape], [copy], new_shape=tensor.shape)
        return copy
