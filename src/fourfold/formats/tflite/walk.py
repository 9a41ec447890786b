"""Walks the operators of a subgraph in order and converts each; what cannot be is collected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.errors import InputError, ModelError, Refusal, nearest
from fourfold.formats.tflite.constants import array_of, quantization_of
from fourfold.formats.tflite.convert import rules
from fourfold.formats.tflite.convert._builder import Budget, Builder, Refuse, Rejected
from fourfold.formats.tflite.convert._operation import Operation
from fourfold.formats.tflite.convert._registry import Rule
from fourfold.formats.tflite.records import FileRecord, OperatorRecord, SubgraphRecord
from fourfold.formats.tflite.tensors import (
    declared,
    given_shape,
    has_arrays,
    no_arrays,
    tensor_names,
)
from fourfold.graph import Graph
from fourfold.types import DType, Shape

QUANTISED = "quantised activations are not supported yet"
_DAMAGE = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError)
_FIX = "export the model again; if other tools accept the file, report it"


@dataclass(frozen=True)
class Converted:
    """A subgraph's graph (None if anything was refused) and the value names of its tensors."""

    graph: Graph | None
    names: tuple[str, ...]
    refusals: tuple[Refusal, ...]


def convert_subgraph(
    file: FileRecord, record: SubgraphRecord, shapes: Mapping[str, Shape], budget: Budget
) -> Converted:
    walk = _Walk(file, record, Builder(budget, reshaped=bool(shapes)))
    walk.name_tensors()
    walk.take_inputs(shapes)
    for operator in record.operators:
        walk.convert(operator)
    return walk.finish()


@dataclass
class _Walk:
    file: FileRecord
    record: SubgraphRecord
    builder: Builder
    names: tuple[str, ...] = ()
    refusals: list[Refusal] = field(default_factory=list)
    written: set[int] = field(default_factory=set)
    guessed: set[str] = field(
        default_factory=set
    )  # types are the file's: an earlier node was refused

    def name_tensors(self) -> None:
        self.names = tensor_names(self.record)
        for name in self.names:
            self.builder.names.fresh(name)

    def take_inputs(self, shapes: Mapping[str, Shape]) -> None:
        known = {self.names[index] for index in self.record.inputs}
        for name in shapes:
            if name not in known:
                raise InputError(f"no input '{name}'", "shapes= names inputs", nearest(name, known))
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
            self._convert(record, outputs)
        except Refuse as refusal:
            self._refuse(record.title, title, str(refusal))
            self._guess(record)
        except Rejected as rejected:
            self._reject(record, title, rejected)
        except _DAMAGE as error:
            what = f"{record.title} '{title}' cannot be converted"
            raise ModelError(what, str(error) or type(error).__name__, _FIX) from error

    def _convert(self, record: OperatorRecord, outputs: tuple[str, ...]) -> None:
        rule = rules().get(record.op)
        if rule is None:
            for index in record.inputs:
                self._check_order(index)
            raise Refuse("this op is not known yet")
        if not outputs:
            raise ValueError("it has no outputs")
        inputs = tuple(None if i == -1 else self._value(i) for i in record.inputs)
        self._check_values(record, rule)
        types = tuple(declared(self.record.tensors[index]) for index in record.outputs)
        rule.convert(Operation(self.builder, record, inputs, outputs, types))
        for index, name in zip(record.outputs, outputs, strict=True):
            if name not in self.builder.types:
                raise ValueError(f"'{name}' is not an output that this op has")
            self._note_quantization(index)
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

    def _value(self, index: int) -> str:
        """The value of a tensor that must exist by now."""
        name, tensor = self.names[index], self.record.tensors[index]
        if index in self.written or name in self.builder.constants:
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
            self._note_quantization(index)
        except (ValueError, LookupError) as error:
            raise ValueError(f"constant '{name}': {error}") from error

    def _note_quantization(self, index: int) -> None:
        quantization = quantization_of(self.record.tensors[index])
        if quantization is not None:
            self.builder.quantization[self.names[index]] = quantization

    def _check_values(self, record: OperatorRecord, rule: Rule) -> None:
        """Refuses values without arrays, and integers that stand for real numbers."""
        read = [index for index in record.inputs if index != -1]
        tensors = [self.record.tensors[index] for index in (*read, *record.outputs)]
        for tensor in tensors:
            if not has_arrays(tensor):
                raise Refuse(no_arrays(tensor))
        at_run_time = [i for i in read if self.names[i] not in self.builder.constants]
        live = [*at_run_time, *(record.outputs if at_run_time else ())]
        if any(self.record.tensors[index].quantized for index in live):
            raise Refuse(QUANTISED)
        constants = [self.record.tensors[i] for i in read if i not in at_run_time]
        if any(t.quantization and t.quantization.details for t in constants if t.quantized):
            raise Refuse("weights quantised by blocks are not supported yet")
        allowed = rule.weights or (rule.moves and not at_run_time)
        if not allowed and any(tensor.quantized for tensor in constants):
            raise Refuse("quantised constants are not supported here yet")

    def _reject(self, record: OperatorRecord, title: str, rejected: Rejected) -> None:
        """A rule said no: a refusal for types not covered yet, else an error."""
        read = {self.names[index] for index in record.inputs if index != -1}
        if not read & self.guessed:
            if rejected.only_floats and self.builder.reshaped:
                what = f"{record.title} '{title}' does not fit the shapes that were asked for"
                raise InputError(what, rejected.why, "pass other shapes, or none")
            if rejected.only_floats:
                what = f"{record.title} '{title}' cannot take its inputs"
                raise ModelError(what, rejected.why, _FIX)
            self._refuse(record.title, title, rejected.why)
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
            self._note_quantization(index)
        except ValueError as error:
            raise ModelError(f"tensor '{name}' is not possible", str(error), _FIX) from error

    def finish(self) -> Converted:
        for index in self.record.outputs:
            self._finish_output(index)
        inputs, outputs = (
            tuple(self.names[index] for index in indices)
            for indices in (self.record.inputs, self.record.outputs)
        )
        graph = None
        if not self.refusals:
            graph = self.builder.finish(inputs, outputs, self.record.name or "main")
        return Converted(graph, self.names, tuple(self.refusals))

    def _finish_output(self, index: int) -> None:
        name = self.names[index]
        try:
            self._value(index)
        except Refuse as refusal:
            self._refuse("output", name, str(refusal))
        except _DAMAGE as error:
            what = f"output '{name}' of graph '{self.record.name}' has no value"
            raise ModelError(what, str(error), _FIX) from error
