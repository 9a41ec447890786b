"""Converts the operators of a subgraph in order and collects those that cannot be converted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from fourfold.custom import CUSTOM_OPS
from fourfold.errors import ModelError, Refusal
from fourfold.formats.batch import check_batch
from fourfold.formats.budget import Budget
from fourfold.formats.conversion import DAMAGE, EXPORT_AGAIN, Conversion, FileOperator
from fourfold.formats.inputs import ReadOptions
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.foreign import Leftover, unit_name
from fourfold.formats.tflite.operation import Operation, Rule, TFLiteBuilder
from fourfold.formats.tflite.options import CallOnceOptions, CompositeOptions
from fourfold.formats.tflite.quantized import FloatView
from fourfold.formats.tflite.records import (
    FileRecord,
    OperatorRecord,
    SubgraphRecord,
    TensorRecord,
)
from fourfold.formats.tflite.tensors import (
    array_of,
    declared,
    declared_input,
    declared_types,
    has_arrays,
    no_arrays,
    tensor_names,
)
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.custom import Custom
from fourfold.types import DType, TensorType


def registered_rule(custom_code: str) -> Rule | None:
    return Rule(_convert) if custom_code in CUSTOM_OPS else None


def _convert(op: Operation) -> None:
    """the registered implementation."""
    options = op.record.custom_options.tobytes()
    custom = Custom(op.record.custom_code, options, tuple(_graph_types(op.declared, op.clamped)))
    inputs = tuple(None if name is None else op.type_of(name) for name in op.inputs)
    types = registry()["custom"].infer(custom, *inputs)
    custom = Custom(custom.name, options, types)
    op.builder.nodes.append(Node("custom", op.inputs, op.outputs, custom, name=op.name))
    op.builder.types.update(zip(op.outputs, types, strict=True))


def _graph_types(types: Sequence[TensorType], real: bool) -> list[TensorType]:
    """Return the result types in the graph; f32 for quantized ones if inputs are real numbers."""
    small = (DType.I8, DType.U8, DType.I16)
    return [type.with_dtype(DType.F32) if real and type.dtype in small else type for type in types]


MAX_DEPTH, MAX_VALUES = 8, 2**17  # limits for nested composites and for values after inlining


@dataclass(frozen=True)
class Converted:
    """A converted subgraph (None if an operator was refused) and the value names of its tensors."""

    graph: Graph | None
    names: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    # Constants, including folded ones.
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    # Constants adapted to other shapes.
    changed: Mapping[str, np.ndarray] = field(default_factory=dict)


def convert_subgraph(
    file: FileRecord, record: SubgraphRecord, options: ReadOptions, budget: Budget
) -> Converted:
    builder = TFLiteBuilder(budget)
    names = tuple(builder.fresh(name) for name in tensor_names(record))
    view = FloatView(builder, record.tensors, names, options.quantized)
    keep = options.keep_unsupported
    walk = _Walk(builder, file=file, record=record, view=view, names=names, keep_unsupported=keep)
    walk.take_graph_inputs(options)
    for number, operator in enumerate(record.operators):
        walk.number = number
        walk.convert_operator(operator)
    return walk.result()


@dataclass(kw_only=True)
class _Walk(Conversion):
    builder: TFLiteBuilder = field(kw_only=False)
    file: FileRecord
    record: SubgraphRecord
    view: FloatView
    names: tuple[str, ...]
    keep_unsupported: bool = False
    number: int = 0
    depth: int = 0  # nesting depth of composites

    @cached_property
    def _indices(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def _tensor(self, value: str) -> TensorRecord:
        return self.record.tensors[self._indices[value]]

    def can_be_passed(self, dtype: DType) -> bool:
        """Return True for arrays; strings can be passed to LiteRT and returned by it."""
        return dtype.has_numpy or (self.keep_unsupported and dtype is DType.STRING)

    def no_arrays(self, value: str) -> str:
        return no_arrays(self._tensor(value))

    def declare(self, value: str) -> bool:
        with _checking_tensor(value):
            self.builder.types[value] = declared(self._tensor(value))
            self.view.note(self._indices[value])
        return True

    def stand_in(self, operator: FileOperator, reason: str) -> bool:
        if not self.keep_unsupported:
            return False
        leftover = Leftover(
            file=self.file,
            graph=self.record,
            names=self.names,
            number=self.number,
            reason=reason,
            unsized=self.unsized,
        )
        inputs, attributes = leftover.inputs(self.builder), leftover.attributes(self.builder)
        name = unit_name(leftover.record, self.number, self.names)
        self.add_foreign(inputs, operator.outputs, attributes, name)
        return True

    def take_graph_inputs(self, options: ReadOptions) -> None:
        inputs = []
        for index in self.record.inputs:
            with _checking_tensor(self.names[index]):
                inputs.append(declared_input(self.names[index], self.record.tensors[index]))
        self.take_inputs(inputs, options)
        for index in self.record.inputs:
            with _checking_tensor(self.names[index]):
                self.view.note(index)

    def inner(self, record: SubgraphRecord, names: tuple[str, ...]) -> _Walk:
        """Return the walk of a graph that an operator of this one calls."""
        view = FloatView(self.builder, record.tensors, names, self.view.allowed)
        depth = self.depth + 1
        return _Walk(
            self.builder, file=self.file, record=record, view=view, names=names, depth=depth
        )

    def convert_operator(self, record: OperatorRecord) -> None:
        inputs = tuple(None if index == -1 else self.names[index] for index in record.inputs)
        outputs = tuple(self.names[index] for index in record.outputs)
        operator = FileOperator(record.title, inputs, outputs)
        self.convert(operator, partial(self._add_nodes, record, outputs))

    def _add_nodes(self, record: OperatorRecord, outputs: tuple[str, ...]) -> None:
        # Check types first, so that an invalid type is not reported as an unsupported operator.
        read, written = (
            declared_types(self.record, indices) for indices in (record.inputs, record.outputs)
        )
        if isinstance(record.options, CompositeOptions):
            _inline(self, record, record.options.decomposition)
            return
        if isinstance(record.options, CallOnceOptions) and not self.keep_unsupported:
            _read_initial_values(self, record.options.init_subgraph)
            return
        rule = self._rule(record)
        inputs = tuple(None if i == -1 else self.value(i, rule.states) for i in record.inputs)
        if not rule.resources:
            _check_arrays(self.record, record)
        viewed = self.view.is_needed(record, rule)
        _check_sizes(inputs, self.unsized)
        operation = Operation(
            self.builder,
            unit_name(record, self.number, self.names),
            outputs,
            inputs,
            record,
            declared=written,
            read=read,
        )
        operation = self.view.enter(operation) if viewed else operation
        before = len(self.builder.nodes)
        rule.convert(operation)
        self.view.leave(operation, outputs)
        title, own = f"{record.title} '{operation.name}'", operation.own_types(outputs)
        check_batch(self.builder, title, own, self.builder.nodes[before:])
        for index in record.outputs:
            self.view.note(index)

    def _rule(self, record: OperatorRecord) -> Rule:
        rule = registered_rule(record.custom_code) or rules().get(record.title)
        if rule is None:
            for index in record.inputs:
                self._check_order(index)
            raise Unconvertible("this operator is not supported")
        if rule.resources and self.keep_unsupported:
            raise Unconvertible("LiteRT owns its variable when a model is split")
        if not record.outputs and not rule.resources:
            raise ValueError("it has no outputs")
        return rule

    def value(self, index: int, states: bool = False) -> str:
        """Return the value of a tensor that must exist by now."""
        name, tensor = self.names[index], self.record.tensors[index]
        if name in self.written or name in self.builder.constants:
            return name
        if tensor.variable and states:
            self.builder.variables[name] = declared(tensor)
            return name
        if tensor.variable:
            raise Unconvertible(f"it reads '{name}', a state that persists between runs")
        self._check_order(index)
        if not has_arrays(tensor):
            raise Unconvertible(no_arrays(tensor))
        self._load(index)
        return name

    def _check_order(self, index: int) -> None:
        """Raise ValueError unless a tensor is an input, constant, state or earlier result."""
        if index == -1 or self.names[index] in self.written:
            return
        tensor = self.record.tensors[index]
        empty = self.file.buffers[tensor.buffer].size == 0 and 0 not in tensor.shape
        if empty and not tensor.variable:
            raise ValueError(
                f"it reads '{self.names[index]}', which no earlier operator has written"
            )

    def _load(self, index: int) -> None:
        name, tensor = self.names[index], self.record.tensors[index]
        try:
            packed = tensor.sparsity is not None or tensor.dtype is DType.I4
            data = self.file.buffers[tensor.buffer]
            if packed and not self.builder.budget.take(declared(tensor), data.size):
                raise Unconvertible(f"constant '{name}' is too large to unpack")
            self.builder.constant(name, array_of(tensor, data))
            self.view.note(index)
        except (ValueError, LookupError) as error:
            raise ValueError(f"constant '{name}': {error}") from error

    def result(self) -> Converted:
        outputs = [self._finish_output(index) for index in self.record.outputs]
        graph = self.finish(outputs, self.record.name or "main")
        known, changed = self.builder.constants, self.builder.changed_constants()
        return Converted(graph, self.names, tuple(self.refusals), known, changed)

    def _finish_output(self, index: int) -> str:
        """Return the value of an output, in the file's element type."""
        name = self.names[index]
        try:
            self.value(index)
            if not self.can_be_passed(self.builder.types[name].dtype):
                raise Unconvertible(self.no_arrays(name))
            return name if self.refusals else self.view.stored(index)
        except Unconvertible as refusal:
            self.refuse("output", name, str(refusal))
            return name
        except DAMAGE as error:
            what = f"output '{name}' of graph '{self.record.name}' has no value"
            raise ModelError(what, str(error), EXPORT_AGAIN) from error


@contextmanager
def _checking_tensor(name: str) -> Iterator[None]:
    """Turn errors from an invalid tensor record into a ModelError."""
    try:
        yield
    except ValueError as error:
        raise ModelError(f"tensor '{name}' is not valid", str(error), EXPORT_AGAIN) from error


def _check_arrays(graph: SubgraphRecord, record: OperatorRecord) -> None:
    """Refuse values that cannot be arrays."""
    for index in (*record.inputs, *record.outputs):
        if index != -1 and not has_arrays(graph.tensors[index]):
            raise Unconvertible(no_arrays(graph.tensors[index]))


def _check_sizes(inputs: tuple[str | None, ...], unsized: set[str]) -> None:
    for name in inputs:
        if name in unsized:
            raise Unconvertible(f"the shape of '{name}' is known only at run time")


def _inline(outer: _Walk, record: OperatorRecord, number: int) -> None:
    """Convert a composite to the operators of the graph that defines it."""
    if not 0 <= number < len(outer.file.subgraphs) or outer.depth >= MAX_DEPTH:
        raise ValueError(f"graph {number}, which defines it, is missing or contains itself")
    if len(outer.builder.types) > MAX_VALUES:
        raise Unconvertible(f"inlining it would exceed {MAX_VALUES} values")
    inner = outer.file.subgraphs[number]
    ports = [(record.inputs, inner.inputs), (record.outputs, inner.outputs)]
    if any(len(mine) != len(theirs) for mine, theirs in ports) or -1 in record.inputs:
        raise Unconvertible(f"its values do not match those of graph {number}, which defines it")
    values = dict(zip(inner.outputs, (outer.names[index] for index in record.outputs), strict=True))
    arguments = zip(inner.inputs, (outer.value(index) for index in record.inputs), strict=True)
    values.update(arguments)
    if len(values) != len(inner.inputs) + len(inner.outputs):
        raise Unconvertible(f"graph {number}, which defines it, returns an input")
    fresh = outer.builder.fresh
    title = outer.names[record.outputs[0]]
    names = tuple(
        values[index] if index in values else fresh(f"{title}/{name}")
        for index, name in enumerate(tensor_names(inner))
    )
    walk = outer.inner(inner, names)
    walk.written.update(names[index] for index in inner.inputs)
    for operator in inner.operators:
        walk.convert_operator(operator)
        if walk.refusals:
            raise Unconvertible(f"inside it, {walk.refusals[0]}")
    for index in inner.outputs:
        walk.value(index)


def _read_initial_values(outer: _Walk, number: int) -> None:
    """Read the initial values of variables from the graph that assigns them."""
    if not 0 <= number < len(outer.file.subgraphs) or outer.depth >= MAX_DEPTH:
        raise ValueError(f"graph {number}, which it calls, is missing or calls itself")
    inner, builder = outer.file.subgraphs[number], outer.builder
    names = tuple(builder.fresh(name) for name in tensor_names(inner))
    walk = outer.inner(inner, names)
    builder.starting = True
    for operator in inner.operators:
        walk.convert_operator(operator)
    builder.starting = False
    if walk.refusals:
        raise Unconvertible(f"in the graph it calls, {walk.refusals[0]}")
