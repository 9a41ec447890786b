"""PaddleSourceGraph: a program whose parts can be written as models."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fourfold.formats.model import SourceGraph
from fourfold.formats.paddle.conversion import written_by
from fourfold.formats.paddle.records import OperatorRecord, Program, Variable
from fourfold.formats.paddle.schema import (
    DESCRIPTION,
    ELEMENTS,
    FEED,
    FETCH,
    LOD_TENSOR,
    AttributeField,
    AttributeKind,
    BlockField,
    OperatorField,
    ParameterField,
    ProgramField,
    TensorField,
    TypeField,
    VariableField,
)
from fourfold.formats.protobuf import MessageWriter
from fourfold.types import DType, Shape

_NUMBERS = {dtype: number for number, dtype in ELEMENTS.items()}
_VERSION = 2_004_000  # version of the program format


@dataclass(frozen=True)
class Excerpt:
    """A part of a program: operators, inputs and outputs, variable types and parameters."""

    operators: Sequence[OperatorRecord]
    inputs: Sequence[str]
    outputs: Sequence[str]
    variables: Mapping[str, Variable]
    parameters: Mapping[str, np.ndarray]


def write_excerpt(excerpt: Excerpt) -> bytes:
    """Return program and parameters in one piece, after the program's length in eight bytes."""
    program = _program(excerpt)
    head = struct.pack("<Q", len(program))
    return b"".join([head, program, *_parameters(excerpt.parameters)])


def _program(excerpt: Excerpt) -> bytes:
    block = MessageWriter().integer(1, 0).integer(2, -1)
    block.message(BlockField.VARIABLES, _holder("feed", FEED))
    block.message(BlockField.VARIABLES, _holder("fetch", FETCH))
    for name in _named(excerpt):
        array = excerpt.parameters.get(name)
        if array is None:
            declared = excerpt.variables.get(name, Variable(DType.F32, (-1,)))
            variable = _variable(name, declared.dtype or DType.F32, declared.sizes, False)
        else:
            variable = _variable(name, DType.of(array), array.shape, True)
        block.message(BlockField.VARIABLES, variable)
    for column, name in enumerate(excerpt.inputs):
        block.message(BlockField.OPERATORS, _port("feed", ["feed"], [name], column))
    for operator in excerpt.operators:
        assert operator.message is not None, "a program that can be split has its messages"
        block.block(BlockField.OPERATORS, operator.message)
    for column, name in enumerate(excerpt.outputs):
        block.message(BlockField.OPERATORS, _port("fetch", [name], ["fetch"], column))
    version = MessageWriter().integer(1, _VERSION)
    return MessageWriter().message(ProgramField.BLOCKS, block).message(4, version).finish()


def _named(excerpt: Excerpt) -> Iterable[str]:
    """Return every variable once."""
    names = [*excerpt.inputs, *excerpt.outputs]
    for operator in excerpt.operators:
        names += operator.read
        names += (name for values in operator.outputs.values() for name in values)
    return dict.fromkeys(names)


def _holder(name: str, kind: int) -> MessageWriter:
    type_ = MessageWriter().integer(TypeField.KIND, kind)
    writer = MessageWriter().text(VariableField.NAME, name).message(VariableField.TYPE, type_)
    return writer.integer(VariableField.PERSISTABLE, 1)


def _description(dtype: DType, sizes: Shape) -> MessageWriter:
    writer = MessageWriter().integer(TensorField.ELEMENT, _NUMBERS[dtype])
    for size in sizes:
        writer.integer(TensorField.SIZES, size)
    return writer


def _variable(name: str, dtype: DType, sizes: Shape, persistable: bool) -> MessageWriter:
    tensor = MessageWriter().message(DESCRIPTION, _description(dtype, sizes))
    kind = MessageWriter().integer(TypeField.KIND, LOD_TENSOR).message(TypeField.TENSOR, tensor)
    writer = MessageWriter().text(VariableField.NAME, name).message(VariableField.TYPE, kind)
    return writer.integer(VariableField.PERSISTABLE, persistable)


def _port(type_: str, read: Sequence[str], written: Sequence[str], column: int) -> MessageWriter:
    writer = MessageWriter()
    for field, name, values in (
        (OperatorField.INPUTS, "X", read),
        (OperatorField.OUTPUTS, "Out", written),
    ):
        arguments = MessageWriter().text(ParameterField.NAME, name)
        writer.message(field, arguments.texts(ParameterField.ARGUMENTS, values))
    number = MessageWriter().text(AttributeField.NAME, "col")
    number.integer(AttributeField.KIND, AttributeKind.INTEGER)
    number.integer(AttributeField.INTEGER, column)
    writer.text(OperatorField.TYPE, type_)
    return writer.message(OperatorField.ATTRIBUTES, number)


def _parameters(parameters: Mapping[str, np.ndarray]) -> Iterable[bytes]:
    """Yield parameters in the order of their names, as in a combined parameter file."""
    for _, array in sorted(parameters.items()):
        description = _description(DType.of(array), array.shape).finish()
        yield struct.pack("<IQIi", 0, 0, 0, len(description))
        yield description
        yield np.ascontiguousarray(array).tobytes()


@dataclass(frozen=True)
class PaddleSourceGraph(SourceGraph):
    """A program that can be split; `known` has its parameters and constants folded from them."""

    program: Program
    known: Mapping[str, np.ndarray]

    @cached_property
    def units(self) -> Mapping[str, OperatorRecord]:
        """Return the operators by the first variable that they write."""
        written = ((written_by(one), one) for one in self.program.operators)
        return {names[0]: one for names, one in written if names}

    @cached_property
    def titles(self) -> Mapping[str, str]:
        return {name: one.type for name, one in self.units.items()}

    @property
    def content(self) -> bytes:
        return self.write(list(self.units), self.program.feeds, [*self.program.fetches.values()])

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Return the variables by name; the two are equal in Paddle."""
        written = (name for one in self.program.operators for name in written_by(one))
        return {name: name for name in (*self.program.feeds, *written)}

    def reads(self, unit: str) -> tuple[str, ...]:
        names = dict.fromkeys(self.units[unit].read)
        return tuple(name for name in names if name not in self.known)

    def writes(self, unit: str) -> tuple[str, ...]:
        return tuple(written_by(self.units[unit]))

    def write(
        self,
        units: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> bytes:
        selected = set(units)
        operators = [one for name, one in self.units.items() if name in selected]
        written = {name for one in operators for name in written_by(one)}
        read = {name for one in operators for name in one.read} - written
        excerpt = Excerpt(
            operators=operators,
            inputs=[self._variable(name) for name in inputs],
            outputs=[self._variable(name) for name in outputs],
            variables=self.program.variables,
            parameters={name: self.known[name] for name in sorted(read) if name in self.known},
        )
        return write_excerpt(excerpt)

    def _variable(self, value: str) -> str:
        name = self.tensor(value)
        assert isinstance(name, str), f"'{value}' is not a variable of the program"
        return name
