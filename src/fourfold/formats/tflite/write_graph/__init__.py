"""Writes a graph as a TFLite file, with one rule per op, discovered by scanning `operators`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.errors import Refusal, UnsupportedError
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.metadata import BUFFER
from fourfold.formats.tflite.records import FileRecord, SignatureRecord, SubgraphRecord
from fourfold.formats.tflite.schema import ACTIVATIONS
from fourfold.formats.tflite.write_graph.draft import Draft, Tensor
from fourfold.formats.tflite.write_graph.expand import expand_nodes, expansions
from fourfold.formats.tflite.write_graph.forms import Forms, forms_of, real_forms
from fourfold.formats.tflite.write_graph.metadata import write_metadata
from fourfold.formats.tflite.write_graph.node_writer import NeedsRealNumbers, NodeWriter
from fourfold.formats.tflite.write_graph.operators import rules
from fourfold.formats.tflite.write_graph.operators.custom import split_tables
from fourfold.formats.tflite.write_graph.roundings import keep_float16, keep_roundings
from fourfold.formats.tflite.write_graph.serialize import serialize
from fourfold.formats.tflite.write_graph.values import Values
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph, Node
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType, Quantization, TensorType, to_integers


def write(model: WritableModel) -> bytes:
    """Return the file.

    Raises UnsupportedError with every node that TFLite cannot express.
    """
    file, about = file_of(model), write_metadata(model.metadata)
    if about is None:
        return serialize(file)
    buffer = np.frombuffer(about.content, np.uint8)
    file = replace(file, buffers=(*file.buffers, buffer), metadata={BUFFER: buffer})
    return about.append_files(serialize(file))


def operators() -> Mapping[str, str]:
    """Return the ops that can be written, each with a short description."""
    expanded = {op: expand for op, expand in expansions().items() if op not in (*rules(), "tail")}
    functions = {**{op: rule.write for op, rule in rules().items()}, **expanded}
    return {op: (one.__doc__ or "").split("\n")[0] for op, one in sorted(functions.items())}


STARTING_GRAPH = 1
_HANDLE = TensorType(DType.RESOURCE, ())


@dataclass
class States:
    """The variables of a graph, each with its handle: read first, assigned last.

    LiteRT refuses to read a variable that was never assigned, so the first run calls a separate
    graph that assigns all of them.
    """

    values: Values
    handles: dict[str, Tensor] = field(default_factory=dict)

    def read(self) -> None:
        """Read every state before any node."""
        draft, states = self.values.draft, self.values.graph.states
        if states:
            draft.operator("CALL_ONCE", [], [], init_subgraph=STARTING_GRAPH)
        for state in states:
            self.handles[state] = _handle(draft, state)
            tensor = self.values.declare(state)
            draft.operator("READ_VARIABLE", [self.handles[state]], [tensor])

    def keep(self) -> None:
        """Assign every state its value for the next run, after all nodes."""
        draft, states = self.values.draft, self.values.graph.states
        for state, after in states.items():
            form = self.values.form(state)
            value = self.values.plain(after) if form is None else self.values.stored_as(after, form)
            draft.operator("ASSIGN_VARIABLE", [self.handles[state], value], [])

    def starting_graph(self) -> SubgraphRecord:
        """Return the graph that assigns the initial values of all states."""
        graph, draft = self.values.graph, Draft(self.values.draft.buffers)
        for state in graph.states:
            handle, type = _handle(draft, state), graph.types[state]
            form = self.values.form(state)
            array = graph.starts.get(state)
            first = np.zeros(type.shape, type.dtype.numpy) if array is None else array
            if form is None or form.quantization is None:
                start = draft.constant(f"{state}/start", first)
            else:
                integers = to_integers(first, form.quantization, form.dtype)
                start = draft.stored_constant(
                    f"{state}/start", integers, form.dtype, form.quantization
                )
            draft.operator("ASSIGN_VARIABLE", [handle, start], [])
        return draft.subgraph("start", [], [])


def _handle(draft: Draft, state: str) -> Tensor:
    handle = draft.tensor(f"{state}/variable", _HANDLE)
    draft.operator("VAR_HANDLE", [], [handle], shared_name=state)
    return handle


SCHEMA_VERSION = 3
SIGNATURE = "serving_default"
_FUSED = {name: number for number, name in enumerate(ACTIVATIONS) if name not in ("", "tanh")}


def file_of(model: WritableModel) -> FileRecord:
    """Return the file as records.

    Raises UnsupportedError with everything that cannot be written.
    """
    model = replace(model, graph=expand_nodes(split_tables(model.graph)))
    model = keep_float16(keep_roundings(model, rules()))
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
            "write a .fourfold file, which holds any model, or exclude these nodes with outputs=",
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
    """Give the source of an unchanged output the name of the output."""
    graph, source, result = model.graph, node.inputs[0] if node.inputs else None, node.outputs[0]
    is_computed = source is not None and source in graph.producers
    if source is not None and is_computed and source not in titles and result in titles:
        grid = node.attributes
        if isinstance(grid, Quantize):
            form = StoredAs(grid.to, Quantization((grid.scale,), (grid.zero_point,)))
            same = model.stored.get(source) == form
        else:
            same = node.op == "identity" and source not in model.stored
        if same and not graph.is_output(source):
            titles[source] = titles.pop(result)


def _grids(graph: Graph) -> Mapping[str, Quantization]:
    """Return the quantization of values that are integers in the graph itself."""
    grids: dict[str, Quantization] = {}
    for node in graph.nodes:
        source = node.inputs[0] if isinstance(node.attributes, Dequantize) else None
        dtype = None if source is None else graph.types[source].dtype
        if source is not None and isinstance(node.attributes, Dequantize):
            zero_point = node.attributes.zero_point
            if dtype in (DType.I8, DType.U8) or (dtype is DType.I16 and zero_point == 0):
                grids.setdefault(source, Quantization((node.attributes.scale,), (zero_point,)))
    return grids


def fused_nodes(model: WritableModel) -> Iterator[tuple[Node, int]]:
    """Yield every node with its fused activation: one that is its only reader."""
    graph, rules_ = model.graph, rules()
    taken: set[str] = set()
    for node in graph.nodes:
        if node.outputs[0] in taken:
            continue
        rule, value = rules_.get(node.op), node.outputs[0]
        readers = graph.readers.get(value, ())
        is_fusable = len(readers) == 1 and not graph.is_output(value) and value not in model.stored
        if rule is None or not rule.fuses or not is_fusable or readers[0].op not in _FUSED:
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
        """Record why something cannot be written, and define its values for later nodes."""
        try:
            yield
        except Unconvertible as refusal:
            self.refusals.append(Refusal(names[0], op, str(refusal)))
            for value in names:
                if value in self.graph.types and value not in self.values.own:
                    self.values.own[value] = self.values.result(value, None, own=True)

    def write(self, node: Node, activation: int) -> None:
        """Add the operators of a node, or record why it cannot be written."""
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
        """Return the tensors of the outputs, each separate and with the caller's name."""
        tensors: list[Tensor] = []
        for value, name in zip(self.graph.results, self.model.output_names, strict=True):
            with self._noting("output", value):
                form = self.values.form(value)
                tensor = (
                    self.values.plain(value) if form is None else self.values.stored_as(value, form)
                )
                tensors.append(self._own(tensor, name, [*self.inputs, *tensors]))
        with self._noting("state", ", ".join(self.graph.states)):
            self.states.keep()
        return tensors

    def _own(self, tensor: Tensor, name: str, taken: list[Tensor]) -> Tensor:
        """Return the tensor, or a copy if it is also used otherwise."""
        draft = self.values.draft
        record = draft.tensors[tensor.index]
        if tensor not in taken and not record.buffer and record.name == name:
            return tensor
        copy = draft.tensor(name, tensor.type, tensor.quantization)
        shape = draft.constant(f"{name}/shape", np.array(tensor.shape, np.int32))
        draft.operator("RESHAPE", [tensor, shape], [copy], new_shape=tensor.shape)
        return copy
