"""Converts the operators of a program to nodes; an overwritten variable becomes a new value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.errors import InputError, ModelError
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.conversion import EXPORT_AGAIN, FileOperator, Names, OverwritingConversion
from fourfold.formats.inputs import DeclaredInput, ReadOptions, shape_needed
from fourfold.formats.paddle.convert import rules
from fourfold.formats.paddle.operation import Operation
from fourfold.formats.paddle.records import OperatorRecord, Program, Variable
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.foreign import Foreign
from fourfold.types import DType, OpenInput, Shape, TensorType


@dataclass
class ProgramConversion(OverwritingConversion):
    """Converts the operators of a program.

    `left_out` are variables that only training uses, which no rule writes. With `stands_in`,
    unsupported operators are left to Paddle.
    """

    program: Program = field(default_factory=lambda: Program((), {}, (), {}, ()))
    left_out: set[str] = field(default_factory=set)
    stands_in: bool = False
    number: int = 0  # index of the operator being converted

    def add_record(self, record: OperatorRecord) -> None:
        """Convert an operator to nodes, or record a refusal."""
        writes = written_by(record)
        self.left_out.update(name for names in record.outputs.values() for name in names)
        self.left_out.difference_update(writes)
        self.add_operator(
            record.type, record.read, writes, lambda *values: self._add_nodes(record, *values)
        )

    def _add_nodes(self, record: OperatorRecord, inputs: Names, outputs: Names) -> None:
        rule = rules().get(record.type)
        if rule is None:
            raise Unconvertible("operators of this type are not supported")
        if not self.unsized.isdisjoint(inputs):
            raise Unconvertible("the shapes of its inputs are known only at run time")
        for name, value in zip(record.read, inputs, strict=True):
            if name in self.left_out and value not in self.builder.types:
                raise Unconvertible(f"'{name}' is not computed at inference")
        remaining = iter(inputs)
        values = {
            one: tuple(next(remaining) for _ in names) for one, names in record.inputs.items()
        }
        own = {value: self.own[value].shape for value in inputs} if self.own else {}
        name = outputs[0] if outputs else record.type
        rule.convert(Operation(self.builder, name, outputs, record, values, own))

    def stand_in(self, operator: FileOperator, reason: str) -> bool:
        """Add a placeholder node for an operator that Paddle runs."""
        record = self.program.operators[self.number]
        inputs = tuple(name for name in dict.fromkeys(operator.inputs) if name is not None)
        is_typed = all(name in self.builder.types for name in inputs)
        if not self.stands_in or record.has_blocks or not is_typed:
            return False
        variables = [self.program.variables.get(name) for name in operator.outputs]
        if any(one is None or one.dtype is None for one in variables):
            return False
        declared = [one for one in variables if one is not None]
        dynamic = any(-1 in one.sizes for one in declared) or not self.unsized.isdisjoint(inputs)
        types = tuple(
            TensorType(one.dtype or DType.F32, () if -1 in one.sizes else one.sizes)
            for one in declared
        )
        read = tuple(self.builder.types[name] for name in inputs)
        node = Foreign("paddle", (self.number,), record.type, reason, types, read, dynamic)
        inputs = tuple(name for name in inputs if name not in self.builder.constants)
        self.add_foreign(inputs, operator.outputs, node, operator.name)
        return True


def written_by(record: OperatorRecord) -> list[str]:
    """Return the variables that an operator writes at inference."""
    rule = rules().get(record.type)
    parameters = (*record.outputs,) if rule is None else rule.outputs
    return [name for one in parameters for name in record.outputs.get(one, ())]


def convert_program(
    program: Program, parameters: Mapping[str, np.ndarray], size: int, options: ReadOptions
) -> ProgramConversion:
    """Convert all operators of a program whose files have `size` bytes."""
    builder = GraphBuilder(Budget.of(size))
    stands_in = options.keep_unsupported and program.can_be_cut
    conversion = ProgramConversion(builder, program=program, stands_in=stands_in)
    for name in (*program.feeds, *parameters):
        if builder.fresh(name) != name:
            raise ModelError(f"'{name}' is defined twice", "names must be unique", EXPORT_AGAIN)
    for name, array in parameters.items():
        builder.constant(name, array)
    try:
        inputs = [
            declare_feed(name, program.variables.get(name), options.shapes.get(name))
            for name in program.feeds
        ]
    except InputError as error:
        error.open_inputs = open_inputs(program)
        raise
    conversion.take_inputs(inputs, options)
    if builder.batch_factor != 1:
        own = convert_program(program, parameters, size, ReadOptions(follow_batch=False))
        conversion.own = own.builder.types
    for number, record in enumerate(program.operators):
        conversion.number = number
        conversion.add_record(record)
    return conversion


def open_inputs(program: Program) -> tuple[OpenInput, ...]:
    """Return the inputs as the program declares them."""
    feeds = ((name, program.variables.get(name)) for name in program.feeds)
    return tuple(
        OpenInput(name, variable.dtype, tuple(variable.sizes))
        for name, variable in feeds
        if variable is not None and variable.dtype is not None
    )


def declare_feed(name: str, variable: Variable | None, shape: Shape | None) -> DeclaredInput:
    """Declare an input.

    Raises InputError if a size other than the batch is dynamic and the caller did not set a shape.
    """
    if variable is None or variable.dtype is None:
        what, why = f"input '{name}' is not valid", "the program does not declare its type"
        raise ModelError(what, why, EXPORT_AGAIN)
    sizes = variable.sizes
    if shape is None and -1 in sizes[1:]:
        raise shape_needed(name, tuple(sizes))
    try:
        return DeclaredInput.of(name, variable.dtype, sizes)
    except ValueError as error:
        raise ModelError(f"input '{name}' is not valid", str(error), EXPORT_AGAIN) from error
