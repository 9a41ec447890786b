"""Converts the operators of a graph one by one and collects those that cannot be converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from fourfold.errors import FourfoldError, InputError, ModelError, Refusal, UnsupportedError
from fourfold.formats.batch import OwnTypes, check_batch
from fourfold.formats.budget import MAX_OPERATORS
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.inputs import DeclaredInput, ReadOptions, declare_inputs
from fourfold.formats.rule_table import TypeMismatch, Unconvertible
from fourfold.graph import Graph, Node
from fourfold.ops.foreign import Foreign
from fourfold.types import DType, Shape, TensorType

DAMAGE = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError)
EXPORT_AGAIN = "export the model again; if other tools accept the file, report it"
DAMAGED = "download or export the file again; if other tools accept it, report it"
SEE_OPS = "'fourfold ops' lists what is supported"
ON_THE_CPU = "a Session runs these on the CPU, unless it was opened with strict=True"


@contextmanager
def report_damage(title: str, kind: str, *others: type[Exception]) -> Iterator[None]:
    """Turn errors caused by a damaged file into a ModelError.

    `others` are further exceptions that a format raises for damage.
    """
    damage: tuple[type[Exception], ...] = (*DAMAGE, *others)
    try:
        yield
    except FourfoldError:
        raise
    except damage as error:
        what, why = f"{title} is not a valid {kind}", str(error) or type(error).__name__
        raise ModelError(what, why, DAMAGED) from error


@dataclass(frozen=True)
class FileOperator:
    """An operator as the file has it: its type ('CONV_2D') and its values by name."""

    title: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name of its first output, or its type if it has none."""
        return self.outputs[0] if self.outputs else self.title

    def __str__(self) -> str:
        return f"{self.title} '{self.name}'"


@dataclass
class Conversion:
    """The conversion of one graph.

    A damaged file raises an error. An unsupported operator is recorded as a refusal and the
    conversion continues, so that all refusals are reported together. A format overrides `declare`
    if its files contain types of values, and `stand_in` if it has a CPU engine that runs
    unsupported operators.
    """

    builder: GraphBuilder
    inputs: tuple[str, ...] = ()
    refusals: list[Refusal] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    # Outputs of refused operators, typed by the file.
    guessed: set[str] = field(default_factory=set)
    # Outputs of refused operators without a type in the file.
    unknown: set[str] = field(default_factory=set)
    unsized: set[str] = field(default_factory=set)  # values whose sizes are known only at run time

    def declare(self, value: str) -> bool:
        """Take the type of a value from the file; return False if the file has none."""
        return False

    def stand_in(self, operator: FileOperator, reason: str) -> bool:
        """Add a placeholder node for the CPU engine; return False if none is wanted."""
        return False

    def can_be_passed(self, dtype: DType) -> bool:
        """Return True if callers can pass and receive values of this type."""
        return dtype.has_numpy

    def add_foreign(
        self, inputs: tuple[str | None, ...], outputs: Sequence[str], node: Foreign, name: str
    ) -> None:
        """Add the node of an operator that the CPU engine runs; its results are not constants."""
        for value, type in zip(outputs, node.types, strict=True):
            self.builder.constants.pop(value, None)
            self.builder.types[value] = type
        self.builder.nodes.append(Node("foreign", inputs, tuple(outputs), node, name=name))
        if node.dynamic:
            self.unsized.update(outputs)

    def no_arrays(self, value: str) -> str:
        """Return the reason why a value cannot be an array."""
        kind = self.builder.types[value].dtype.value
        return f"'{value}' holds {kind} values, which are not supported"

    def refuse(self, op: str, name: str, reason: str) -> None:
        self.refusals.append(Refusal(name, op, reason))

    def take_inputs(self, inputs: Sequence[DeclaredInput], options: ReadOptions) -> None:
        """Declare the inputs of the graph, in the shapes that the caller set."""
        for one in inputs:
            if one.name in self.written:
                what = f"input '{one.name}' is listed twice"
                raise ModelError(what, "input names must be unique", EXPORT_AGAIN)
            self.written.add(one.name)
        declare_inputs(self.builder, inputs, options)
        self.inputs = tuple(one.name for one in inputs)
        for name in self.inputs:
            if not self.can_be_passed(self.builder.types[name].dtype):
                self.refuse("input", name, self.no_arrays(name))

    def convert(self, operator: FileOperator, add_nodes: Callable[[], None]) -> None:
        """Convert one operator to nodes, or record a refusal and take its types from the file."""
        if not self.unknown.isdisjoint(operator.inputs):
            self.unknown.update(operator.outputs)
            return
        if not self.builder.budget.take_operator():
            why = f"it has more than {MAX_OPERATORS}, also because functions are inlined"
            fix = "export it with fewer operators, for example without unrolled loops"
            raise ModelError("the model has too many operators", why, fix)
        try:
            self._add(operator, add_nodes)
        except FourfoldError:
            raise
        except DAMAGE as error:
            if self.builder.reshaped and isinstance(error, ValueError):
                raise _shape_error(operator, str(error)) from error
            what = f"{operator} cannot be converted"
            raise ModelError(what, str(error) or type(error).__name__, EXPORT_AGAIN) from error

    def _add(self, operator: FileOperator, add_nodes: Callable[[], None]) -> None:
        """Convert one operator and handle refusals; errors from a damaged file pass through."""
        try:
            self._claim(operator)
            with self.builder.attempt():
                add_nodes()
            self._check_outputs(operator)
        except Unconvertible as refusal:
            self._give_up(operator, str(refusal))
        except TypeMismatch as mismatch:
            self._reject(operator, mismatch)

    def _claim(self, operator: FileOperator) -> None:
        """Check that every value is written once, and inputs and constants never."""
        outputs = operator.outputs
        for name in outputs:
            if name in self.written or name in self.builder.constants:
                raise ValueError(f"it writes '{name}', which already has a value")
        if not set(outputs).isdisjoint(operator.inputs):
            raise ValueError("it reads a value that it writes")
        if len(set(outputs)) != len(outputs):
            raise ValueError("two of its outputs are the same")
        self.written.update(outputs)

    def _check_outputs(self, operator: FileOperator) -> None:
        for name in operator.outputs:
            if name not in self.builder.types:
                raise ValueError(f"'{name}' is not an output that this op has")
        if self._reads_guesses(operator):
            self.guessed.update(operator.outputs)

    def _reads_guesses(self, operator: FileOperator) -> bool:
        return not self.guessed.isdisjoint(operator.inputs)

    def _reject(self, operator: FileOperator, mismatch: TypeMismatch) -> None:
        """Handle inputs that a type rule rejects: refuse unsupported types, else raise."""
        if mismatch.only_floats and not self._reads_guesses(operator):
            if self.builder.reshaped:
                raise _shape_error(operator, mismatch.why)
            raise ModelError(f"{operator} cannot take its inputs", mismatch.why, EXPORT_AGAIN)
        self._give_up(operator, mismatch.why, at_fault=not self._reads_guesses(operator))

    def _give_up(self, operator: FileOperator, reason: str, at_fault: bool = True) -> None:
        """Refuse an operator.

        An operator that reads guessed types is not at fault: an earlier refusal is the cause.
        """
        if not self.stand_in(operator, reason) and at_fault:
            self.refuse(operator.title, operator.name, reason)
        for name in operator.outputs:
            if name in self.builder.types or self.declare(name):
                self.guessed.add(name)
            else:
                self.unknown.add(name)

    def finish(self, outputs: Sequence[str], name: str = "main") -> Graph | None:
        """Return the graph; None if an operator was refused."""
        if self.refusals:
            return None
        for output in outputs:
            if output not in self.builder.types:
                what = f"output '{output}' of graph '{name}' has no value"
                raise ModelError(what, "nothing writes it", EXPORT_AGAIN)
        return self.builder.finish(self.inputs, tuple(outputs), name)


def _shape_error(operator: FileOperator, why: str) -> InputError:
    what = f"{operator} does not fit the requested shapes"
    return InputError(what, why, "pass other shapes, or none")


def unsupported(title: str, refusals: Sequence[Refusal], fix: str = SEE_OPS) -> UnsupportedError:
    """Build the error for a model with refused operators."""
    count = f"{len(refusals)} node{'s' if len(refusals) > 1 else ''}"
    return UnsupportedError(f"{title} has {count} that cannot be converted", refusals, fix)


Names = tuple[str, ...]


@dataclass
class OverwritingConversion(Conversion):
    """Gives every write a value of its own; `values` maps names of the file to their current value.

    `own` has the types of values in the unchanged shapes, if the caller changed the batch.
    """

    values: dict[str, str] = field(default_factory=dict)
    own: Mapping[str, TensorType] = field(default_factory=dict)

    def add_operator(
        self,
        title: str,
        reads: Sequence[str],
        writes: Sequence[str],
        add_nodes: Callable[[Names, Names], None],
    ) -> None:
        """Convert an operator given by the names that it reads and writes in the file.

        `add_nodes` receives the current values of these names.
        """
        inputs = tuple(self.values.get(name, name) for name in reads)
        outputs = tuple(self.builder.fresh(name) for name in writes)
        operator = FileOperator(title, inputs, outputs)
        self.convert(operator, lambda: self._checked(operator, inputs, add_nodes))
        self.values.update(zip(writes, outputs, strict=True))

    def _checked(
        self, operator: FileOperator, inputs: Names, add_nodes: Callable[[Names, Names], None]
    ) -> None:
        before = len(self.builder.nodes)
        with np.errstate(all="ignore"):  # parameters may hold any bit pattern
            add_nodes(inputs, operator.outputs)
        if self.own:
            read = {value: self.own[value] for value in inputs}
            written = {value: self.own[value] for value in operator.outputs}
            nodes = self.builder.nodes[before:]
            check_batch(self.builder, str(operator), OwnTypes(read, written), nodes)

    def own_shapes(self, values: Names) -> tuple[Shape, ...]:
        """Return the shapes that values have in the file; () if the batch was not changed."""
        return tuple(self.own[value].shape for value in values) if self.own else ()
