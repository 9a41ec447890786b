"""The operators of a program become nodes; a variable that is written again is a new value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.errors import InputError, ModelError
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.conversion import EXPORT_AGAIN
from fourfold.formats.inputs import DeclaredInput
from fourfold.formats.options import ReadOptions
from fourfold.formats.overwriting import Names, OverwritingConversion
from fourfold.formats.paddle.convert import rules
from fourfold.formats.paddle.operation import Operation
from fourfold.formats.paddle.records import OperatorRecord, Program, Variable
from fourfold.formats.refusal import Unconvertible
from fourfold.types import Shape

EXAMPLE = 224


@dataclass
class ProgramConversion(OverwritingConversion):
    """`left_out` are variables that no rule gives: they only count in training."""

    left_out: set[str] = field(default_factory=set)

    def add_record(self, record: OperatorRecord) -> None:
        """Its nodes, or a refusal."""
        rule = rules().get(record.type)
        given = (*record.outputs,) if rule is None else rule.outputs
        writes = [name for one in given for name in record.outputs.get(one, ())]
        self.left_out.update(name for names in record.outputs.values() for name in names)
        self.left_out.difference_update(writes)
        self.add_operator(
            record.type, record.read, writes, lambda *values: self._add_nodes(record, *values)
        )

    def _add_nodes(self, record: OperatorRecord, inputs: Names, outputs: Names) -> None:
        rule = rules().get(record.type)
        if rule is None:
            raise Unconvertible("operators of this type are not known")
        for name, value in zip(record.read, inputs, strict=True):
            if name in self.left_out and value not in self.builder.types:
                raise Unconvertible(f"'{name}' is not kept when a model is used")
        rest = iter(inputs)
        values = {one: tuple(next(rest) for _ in names) for one, names in record.inputs.items()}
        own = {value: self.own[value].shape for value in inputs} if self.own else {}
        name = outputs[0] if outputs else record.type
        rule.convert(Operation(self.builder, name, outputs, record, values, own))


def convert_program(
    program: Program, parameters: Mapping[str, np.ndarray], size: int, options: ReadOptions
) -> ProgramConversion:
    """All operators of a program whose files have so many bytes."""
    conversion = ProgramConversion(GraphBuilder(Budget.of(size)))
    builder = conversion.builder
    for name in (*program.feeds, *parameters):
        if builder.fresh(name) != name:
            raise ModelError(f"'{name}' is there twice", "each is a value", EXPORT_AGAIN)
    for name, array in parameters.items():
        builder.constant(name, array)
    inputs = [
        declare_feed(name, program.variables.get(name), options.shapes.get(name))
        for name in program.feeds
    ]
    conversion.take_inputs(inputs, options)
    if builder.batch_factor != 1:
        own = convert_program(program, parameters, size, ReadOptions(follow_batch=False))
        conversion.own = own.builder.types
    for record in program.operators:
        conversion.add_record(record)
    return conversion


def declare_feed(name: str, variable: Variable | None, given: Shape | None) -> DeclaredInput:
    """An input; InputError where a size is open that is no batch, and the caller gives none."""
    if variable is None or variable.dtype is None:
        what, why = f"input '{name}' is not possible", "the program does not say what it is"
        raise ModelError(what, why, EXPORT_AGAIN)
    sizes = variable.sizes
    if given is None and -1 in sizes[1:]:
        filled = ",".join(str(EXAMPLE if size == -1 else size) for size in (1, *sizes[1:]))
        why = f"the model leaves sizes of it open: {list(sizes)}"
        fix = f"pass shapes={{{name!r}: ({filled})}}, or --shape {name}={filled}, with your sizes"
        raise InputError(f"the shape of input '{name}' is needed", why, fix)
    try:
        return DeclaredInput.of(name, variable.dtype, sizes)
    except ValueError as error:
        raise ModelError(f"input '{name}' is not possible", str(error), EXPORT_AGAIN) from error
