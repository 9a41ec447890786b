"""Reads the protobuf form of a program (.pdmodel, or the older __model__)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fourfold.formats.paddle.records import Arguments, Attribute, OperatorRecord, Program, Variable
from fourfold.formats.paddle.schema import (
    DESCRIPTION,
    ELEMENTS,
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
from fourfold.formats.protobuf import Message
from fourfold.formats.source import Content
from fourfold.types import DType, Shape


def read_program(content: Content) -> Program:
    """Read a program from its first block; other blocks belong to control flow operators."""
    block = next(Message(content).messages(ProgramField.BLOCKS), None)
    if block is None:
        raise ValueError("it has no blocks")
    variables = dict(map(_variable, block.messages(BlockField.VARIABLES)))
    operators = [_operator(message) for message in block.messages(BlockField.OPERATORS)]
    feeds = _ports(operators, "feed")
    fetches = _ports(operators, "fetch")
    computing = [one for one in operators if one.type not in ("feed", "fetch")]
    persistable = (
        name for name, one in variables.items() if one.persistable and one.dtype is not None
    )
    return Program(
        operators=tuple(computing),
        variables=variables,
        feeds=tuple(_single(one.outputs, "Out") for one in feeds),
        fetches={name: name for name in (_single(one.inputs, "X") for one in fetches)},
        parameters=tuple(sorted(persistable)),
    )


def _ports(operators: Iterable[OperatorRecord], type_: str) -> list[OperatorRecord]:
    """Return the feed or fetch operators, sorted by column."""

    def column(operator: OperatorRecord) -> int:
        column_number = operator.attributes.get("col", 0)
        return column_number if isinstance(column_number, int) else 0

    return sorted((one for one in operators if one.type == type_), key=column)


def _single(arguments: Arguments, parameter: str) -> str:
    (name,) = arguments.get(parameter, ())
    return name


def _variable(message: Message) -> tuple[str, Variable]:
    kind = message.message(VariableField.TYPE)
    if kind is None:
        raise ValueError(f"variable '{message.text(VariableField.NAME)}' has no type")
    tensor = kind.message(TypeField.TENSOR)
    described = None if tensor is None else tensor.message(DESCRIPTION)
    dtype: DType | None = None
    sizes: Shape = ()
    if kind.integer(TypeField.KIND) == LOD_TENSOR and described is not None:
        dtype, sizes = read_description(described)
    persistable = bool(message.integer(VariableField.PERSISTABLE))
    return message.text(VariableField.NAME), Variable(dtype, sizes, persistable)


def read_description(message: Message) -> tuple[DType | None, Shape]:
    """Return element type and sizes; None for an unsupported type."""
    sizes = tuple(message.integers(TensorField.SIZES).tolist())
    return ELEMENTS.get(message.integer(TensorField.ELEMENT)), sizes


def _operator(message: Message) -> OperatorRecord:
    return OperatorRecord(
        type=message.text(OperatorField.TYPE),
        inputs=_arguments(message.messages(OperatorField.INPUTS)),
        outputs=_arguments(message.messages(OperatorField.OUTPUTS)),
        attributes=dict(_attributes(message.messages(OperatorField.ATTRIBUTES))),
        message=message.content,
        has_blocks=any(
            one.integer(AttributeField.KIND) in (AttributeKind.BLOCK, AttributeKind.BLOCKS)
            for one in message.messages(OperatorField.ATTRIBUTES)
        ),
    )


def _arguments(messages: Iterable[Message]) -> Arguments:
    arguments = {
        one.text(ParameterField.NAME): one.texts(ParameterField.ARGUMENTS) for one in messages
    }
    return {name: values for name, values in arguments.items() if values}


def _attributes(messages: Iterable[Message]) -> Iterable[tuple[str, Attribute]]:
    for message in messages:
        read = _READ.get(message.integer(AttributeField.KIND))
        if read is not None:  # others hold blocks, or names of variables
            yield message.text(AttributeField.NAME), read(message)


_READ: Mapping[int, Callable[[Message], Attribute]] = {
    AttributeKind.INTEGER: lambda message: message.integer(AttributeField.INTEGER),
    AttributeKind.FLOAT: lambda message: message.float32(AttributeField.FLOAT),
    AttributeKind.TEXT: lambda message: message.text(AttributeField.TEXT),
    AttributeKind.INTEGERS: lambda message: tuple(
        message.integers(AttributeField.INTEGERS).tolist()
    ),
    AttributeKind.FLOATS: lambda message: tuple(message.floats(AttributeField.FLOATS).tolist()),
    AttributeKind.TEXTS: lambda message: message.texts(AttributeField.TEXTS),
    AttributeKind.FLAG: lambda message: bool(message.integer(AttributeField.FLAG)),
    AttributeKind.FLAGS: lambda message: tuple(message.integers(AttributeField.FLAGS).tolist()),
    AttributeKind.LONG: lambda message: message.integer(AttributeField.LONG),
    AttributeKind.LONGS: lambda message: tuple(message.integers(AttributeField.LONGS).tolist()),
    AttributeKind.DOUBLES: lambda message: tuple(message.doubles(AttributeField.DOUBLES).tolist()),
    AttributeKind.DOUBLE: lambda message: next(
        iter(message.doubles(AttributeField.DOUBLE).tolist()), 0.0
    ),
}
