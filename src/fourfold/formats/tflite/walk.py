"""Walks the operators of a subgraph in order and converts each; what cannot be is collected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.errors import InputError, ModelError, Refusal, nearest
from fourfold.formats.tflite.batch import batch_factor
from fourfold.formats.tflite.constants import array_of
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.convert._batch import check_batch
from fourfold.formats.tflite.convert._builder import Budget, Builder, Refuse, Rejected
from fourfold.formats.tflite.convert._operation import Operation
from fourfold.formats.tflite.convert._registered import registered_rule
from fourfold.formats.tflite.foreign import Leftover, unit_name
from fourfold.formats.tflite.options import CallOnceOptions, CompositeOptions
from fourfold.formats.tflite.quantized import FloatView
from fourfold.formats.tflite.records import FileRecord, OperatorRecord, SubgraphRecord
from fourfold.formats.tflite.tensors import (
    declared,
    declared_types,
    given_shape,
    has_arrays,
    no_arrays,
    tensor_names,
)
from fourfold.graph import Graph
from fourfold.ops.foreign import Foreign
from fourfold.types import DType, Shape

_DAMAGE = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError)
MOST_DEPTH, MOST_VALUES = 8, 2**17  # of composites inside of each other, and what they become
_FIX = "export the model again; if other tools accept the file, report it"


@dataclass(frozen=True)
class Converted:
    """A subgraph's graph (None if anything was refused) and the value names of its tensors."""

    graph: Graph | None
    names: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    known: Mapping[str, np.ndarray] = field(default_factory=dict)  # constants, folded ones, too
    changed: Mapping[str, np.ndarray] = field(default_factory=dict)  # the file's, for other shapes


def convert_subgraph(
    file: FileRecord,
    record: SubgraphRecord,
    shapes: Mapping[str, Shape],
    budget: Budget,
    foreign: bool = False,
    quantized: bool = True,
    follow: bool = True,
) -> Converted:
    """With `foreign`, what no rule converts becomes a node that stands for the operator itself;
    `follow` lets the batch go through reshapes and slices (see `batch`).
    """
    builder = Builder(budget, reshaped=bool(shapes))
    names = tuple(builder.names.fresh(name) for name in tensor_names(record))
    view = FloatView(builder, record.tensors, names, quantized)
    walk = _Walk(file, record, builder, view, names, foreign=foreign)
    walk.take_inputs(shapes)
    if follow:
        builder.factor = batch_factor(record, names, builder.types)
    for number, operator in enumerate(record.operators):
        walk.number = number
        walk.convert(operator)
    return walk.finish()


@dataclass
class _Walk:
    file: FileRecord
    record: SubgraphRecord
    builder: Builder
    view: FloatView
    names: tuple[str, ...]
    refusals: list[Refusal] = field(default_factory=list)
    written: set[int] = field(default_factory=set)
    guessed: set[str] = field(default_factory=set)  # the file's types: an earlier node was refused
    foreign: bool = False
    number: int = 0
    unsized: set[str] = field(default_factory=set)  # values whose sizes are known at run time only
    depth: int = 0  # how many composites this graph is inside of

    def take_inputs(self, shapes: Mapping[str, Shape]) -> None:
        _check_names(shapes, {self.names[index] for index in self.record.inputs})
        for index in self.record.inputs:
            name, tensor = self.names[index], self.record.tensors[index]
            if index in self.written:
                raise ModelError(f"input '{name}' is listed twice", "each input is a value", _FIX)
            self.written.add(index)
            self._declare(index)
            if name in shapes:
                shape = given_shape(name, shapes[name], tensor)
                self.builder.types[name] = self.builder.types[name].with_shape(*shape)
            if not self.builder.types[name].dtype.has_numpy:
                self._refuse("input", name, no_arrays(tensor))

    def convert(self, record: OperatorRecord) -> None:
        """One operator: its nodes, or a refusal and the types that the file gives its outputs."""
        outputs = tuple(self.names[index] for index in record.outputs)
        title = outputs[0] if outputs else record.title
        try:
            self._claim(record)
            with self.builder.attempt():
                self._convert(record, outputs)
        except Refuse as refusal:
            self._leave(record, title, str(refusal))
        except Rejected as rejected:
            self._reject(record, title, rejected)
        except _DAMAGE as error:
            if self.builder.reshaped and isinstance(error, ValueError):
                raise _misfit(record, title, str(error)) from error
            what = f"{record.title} '{title}' cannot be converted"
            raise ModelError(what, str(error) or type(error).__name__, _FIX) from error

    def _convert(self, record: OperatorRecord, outputs: tuple[str, ...]) -> None:
        if isinstance(record.options, CompositeOptions):
            _inline(self, record, record.options.decomposition)
            return
        if isinstance(record.options, CallOnceOptions) and not self.foreign:
            _start(self, record.options.init_subgraph)
            return
        rule = registered_rule(record.custom_code) or rules().get(record.title)
        if rule is None:
            for index in record.inputs:
                self._check_order(index)
            raise Refuse("this op is not known yet")
        if rule.resources and self.foreign:
            raise Refuse("its variable is LiteRT's where a model runs in parts")
        if not outputs and not rule.resources:
            raise ValueError("it has no outputs")
        inputs = tuple(None if i == -1 else self._value(i, rule.states) for i in record.inputs)
        if not rule.resources:
            _check_arrays(self.record, record)
        viewed = self.view.is_needed(record, rule)
        _check_sizes(inputs, self.unsized)
        operation = Operation(
            self.builder,
            record,
            inputs,
            outputs,
            declared=declared_types(self.record, record.outputs),
            title="" if outputs else unit_name(record, self.number, self.names),
            read=declared_types(self.record, record.inputs),
        )
        operation = self.view.enter(operation) if viewed else operation
        before = len(self.builder.nodes)
        rule.convert(operation)
        self.view.leave(operation, outputs)
        check_batch(operation, outputs, self.builder.nodes[before:])
        for index, name in zip(record.outputs, outputs, strict=True):
            if name not in self.builder.types:
                raise ValueError(f"'{name}' is not an output that this op has")
            self.view.note(index)
        if self.guessed.intersection(name for name in inputs if name is not None):
            self.guessed.update(outputs)

    def _claim(self, record: OperatorRecord) -> None:
        """Every value is written once, and neither inputs nor constants are written at all."""
        for index in record.outputs:
            if index in self.written or self.names[index] in self.builder.constants:
                raise ValueError(f"it writes '{self.names[index]}', which already has a value")
        if set(record.inputs) & set(record.outputs) - {-1}:
            raise ValueError("it reads what it writes")
        if len(set(record.outputs)) != len(record.outputs):
            raise ValueError("two of its outputs are the same")
        self.written.update(record.outputs)

    def _value(self, index: int, states: bool = False) -> str:
        """The value of a tensor that must exist by now."""
        name, tensor = self.names[index], self.record.tensors[index]
        if index in self.written or name in self.builder.constants:
            return name
        if tensor.variable and states:
            self.builder.variables[name] = declared(tensor)
            return name
        if tensor.variable:
            raise Refuse(f"it reads '{name}', a state that is kept between runs")
        self._check_order(index)
        if not has_arrays(tensor):
            raise Refuse(no_arrays(tensor))
        self._load(index)
        return name

    def _check_order(self, index: int) -> None:
        """What is read must be an input, a constant, a state, or written by an earlier operator."""
        if index == -1 or index in self.written:
            return
        tensor = self.record.tensors[index]
        empty = self.file.buffers[tensor.buffer].size == 0 and 0 not in tensor.shape
        if empty and not tensor.variable:
            raise ValueError(f"it reads '{self.names[index]}', which nothing has written before")

    def _load(self, index: int) -> None:
        name, tensor = self.names[index], self.record.tensors[index]
        try:
            packed = tensor.sparsity is not None or tensor.dtype is DType.I4
            data = self.file.buffers[tensor.buffer]
            if packed and not self.builder.budget.take(declared(tensor), data.size):
                raise Refuse(f"constant '{name}' is too large to be unpacked")
            self.builder.constant(name, array_of(tensor, data))
            self.view.note(index)
        except (ValueError, LookupError) as error:
            raise ValueError(f"constant '{name}': {error}") from error

    def _reject(self, record: OperatorRecord, title: str, rejected: Rejected) -> None:
        """A rule said no: a refusal for types not covered yet, else an error."""
        read = {self.names[index] for index in record.inputs if index != -1}
        if not read & self.guessed:
            if rejected.only_floats and self.builder.reshaped:
                raise _misfit(record, title, rejected.why)
            if rejected.only_floats:
                what = f"{record.title} '{title}' cannot take its inputs"
                raise ModelError(what, rejected.why, _FIX)
        elif not self.foreign:
            return self._guess(record)
        return self._leave(record, title, rejected.why)

    def _leave(self, record: OperatorRecord, title: str, reason: str) -> None:
        """An operator that is not converted: a node that stands for it, or a refusal."""
        if self.foreign:
            place = (self.file, self.record, self.names, self.number)
            node = Leftover(*place, reason, self.unsized).add_to(self.builder)
            if isinstance(node.attributes, Foreign) and node.attributes.dynamic:
                self.unsized.update(node.outputs)
        else:
            self._refuse(record.title, title, reason)
        self._guess(record)

    def _guess(self, record: OperatorRecord) -> None:
        for index in record.outputs:
            if self.names[index] not in self.builder.types:
                self._declare(index)
            self.guessed.add(self.names[index])

    def _refuse(self, op: str, name: str, reason: str) -> None:
        self.refusals.append(Refusal(name, op, reason))

    def _declare(self, index: int) -> None:
        """Takes the file's word for a tensor's type."""
        name, tensor = self.names[index], self.record.tensors[index]
        try:
            self.builder.types[name] = declared(tensor)
            self.view.note(index)
        except ValueError as error:
            raise ModelError(f"tensor '{name}' is not possible", str(error), _FIX) from error

    def finish(self) -> Converted:
        for index in self.record.outputs:
            self._finish_output(index)
        graph = None
        if not self.refusals:
            inputs = tuple(self.names[index] for index in self.record.inputs)
            outputs = tuple(self.view.stored(index) for index in self.record.outputs)
            graph = self.builder.finish(inputs, outputs, self.record.name or "main")
        known, changed = self.builder.constants, self.builder.changed_constants()
        return Converted(graph, self.names, tuple(self.refusals), known, changed)

    def _finish_output(self, index: int) -> None:
        name = self.names[index]
        try:
            self._value(index)
        except Refuse as refusal:
            self._refuse("output", name, str(refusal))
        except _DAMAGE as error:
            what = f"output '{name}' of graph '{self.record.name}' has no value"
            raise ModelError(what, str(error), _FIX) from error


def _check_names(shapes: Iterable[str], known: set[str]) -> None:
    for name in shapes:
        if name not in known:
            raise InputError(f"no input '{name}'", "shapes= names inputs", nearest(name, known))


def _misfit(record: OperatorRecord, title: str, why: str) -> InputError:
    what = f"{record.title} '{title}' does not fit the shapes that were asked for"
    return InputError(what, why, "pass other shapes, or none")


def _check_arrays(graph: SubgraphRecord, record: OperatorRecord) -> None:
    """Refuses values that cannot be arrays here."""
    for index in (*record.inputs, *record.outputs):
        if index != -1 and not has_arrays(graph.tensors[index]):
            raise Refuse(no_arrays(graph.tensors[index]))


def _check_sizes(inputs: tuple[str | None, ...], unsized: set[str]) -> None:
    for name in inputs:
        if name in unsized:
            raise Refuse(f"the shape of '{name}' is known only at run time")


def _inline(outer: _Walk, record: OperatorRecord, number: int) -> None:
    """A composite as the operators of the graph that defines it."""
    if not 0 <= number < len(outer.file.subgraphs) or outer.depth >= MOST_DEPTH:
        raise ValueError(f"graph {number}, which defines it, is not there or contains itself")
    if len(outer.builder.types) > MOST_VALUES:
        raise Refuse(f"with it there would be more than {MOST_VALUES} values")
    inner = outer.file.subgraphs[number]
    ports = [(record.inputs, inner.inputs), (record.outputs, inner.outputs)]
    if any(len(mine) != len(theirs) for mine, theirs in ports) or -1 in record.inputs:
        raise Refuse(f"its values do not fit those of graph {number}, which defines it")
    values = dict(zip(inner.outputs, (outer.names[index] for index in record.outputs), strict=True))
    given = zip(inner.inputs, (outer._value(index) for index in record.inputs), strict=True)
    values.update(given)
    if len(values) != len(inner.inputs) + len(inner.outputs):
        raise Refuse(f"graph {number}, which defines it, gives back an input")
    fresh = outer.builder.names.fresh
    title = outer.names[record.outputs[0]]
    names = tuple(
        values[index] if index in values else fresh(f"{title}/{name}")
        for index, name in enumerate(tensor_names(inner))
    )
    view = FloatView(outer.builder, inner.tensors, names, outer.view.allowed)
    walk = _Walk(outer.file, inner, outer.builder, view, names, depth=outer.depth + 1)
    walk.written.update(inner.inputs)
    for operator in inner.operators:
        walk.convert(operator)
        if walk.refusals:
            raise Refuse(f"inside of it, {walk.refusals[0]}")
    for index in inner.outputs:
        walk._value(index)


def _start(outer: _Walk, number: int) -> None:
    """The graph that gives variables what they begin with, told by reading it."""
    if not 0 <= number < len(outer.file.subgraphs) or outer.depth >= MOST_DEPTH:
        raise ValueError(f"graph {number}, which it calls, is not there or calls itself")
    inner, builder = outer.file.subgraphs[number], outer.builder
    names = tuple(builder.names.fresh(name) for name in tensor_names(inner))
    view = FloatView(builder, inner.tensors, names, outer.view.allowed)
    walk = _Walk(outer.file, inner, builder, view, names, depth=outer.depth + 1)
    builder.starting = True
    for operator in inner.operators:
        walk.convert(operator)
    builder.starting = False
    if walk.refusals:
        raise Refuse(f"in what it calls, {walk.refusals[0]}")
