"""Reads a Paddle program and its parameters into a Model.

The protobuf form of a program (.pdmodel, or the older __model__) is read here, the JSON form in
`pir`.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from fourfold.errors import InputError, ModelError
from fourfold.formats.conversion import report_damage, unsupported
from fourfold.formats.inputs import ReadOptions, open_sizes
from fourfold.formats.model import Model
from fourfold.formats.names import unique
from fourfold.formats.paddle.conversion import convert_program
from fourfold.formats.paddle.convert import rules
from fourfold.formats.paddle.files import ProgramFiles, find_files, is_json
from fourfold.formats.paddle.pir import read_json
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
from fourfold.formats.paddle.source_graph import PaddleSourceGraph
from fourfold.formats.protobuf import Message
from fourfold.formats.rule_table import summary
from fourfold.formats.source import Content, ModelSource, check_inside, map_file
from fourfold.types import DType, Shape


def read_parameters(content: Content, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the parameters of a file, in this order, as views of it."""
    stream = _Stream(memoryview(content))
    parameters = {}
    for name in names:
        try:
            parameters[name] = stream.tensor()
        except (ValueError, struct.error) as error:
            raise ValueError(f"parameter '{name}' cannot be read: {error}") from error
    if stream.position != len(stream.content):
        extra = len(stream.content) - stream.position
        raise ValueError(f"{extra} bytes follow the last of {len(names)} parameters")
    return parameters


class _Stream:
    """A cursor over a parameter file."""

    def __init__(self, content: memoryview) -> None:
        self.content, self.position = content, 0

    def _take(self, count: int) -> memoryview:
        end = self.position + count
        if count < 0 or end > len(self.content):
            remaining = len(self.content) - self.position
            raise ValueError(f"{count} bytes are expected, but only {remaining} remain")
        block = self.content[self.position : end]
        self.position = end
        return block

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(number)

    def tensor(self) -> np.ndarray:
        self._version()
        for _ in range(self._levels()):
            self._take(self._number("<Q"))
        self._version()
        dtype, sizes = read_description(Message(self._take(self._number("<i"))))
        if dtype is None or min(sizes, default=0) < 0:
            raise ValueError(f"its type or its shape {list(sizes)} is not valid")
        numbers = self._take(math.prod(sizes) * dtype.size)
        return np.frombuffer(numbers, dtype.numpy).reshape(sizes)

    def _version(self) -> None:
        version = self._number("<I")
        if version != 0:
            raise ValueError(f"format version {version} is not supported")

    def _levels(self) -> int:
        levels = self._number("<Q")
        if levels > 16:
            raise ValueError(f"{levels} LoD levels are too many")
        return levels


def read(source: ModelSource, options: ReadOptions) -> Model:
    options.refuse_signature("Paddle")
    files = find_files(source)
    with report_damage(source.title, "Paddle model", AttributeError, AssertionError):
        file = ModelSource(map_file(files.program), files.program)
        program = read_json(file.content) if is_json(file) else read_program(file.content)
        parameters = _parameters(program, files)
    size = len(file.content) + sum(array.nbytes for array in parameters.values())
    conversion = convert_program(program, parameters, size, options)
    outputs = [conversion.values.get(name, name) for name in program.fetches.values()]
    graph = conversion.finish(outputs)
    if graph is None:
        raise unsupported(source.title, conversion.refusals)
    return Model(
        main=graph,
        input_names=graph.arguments,
        output_names=unique(program.fetches),
        open_sizes=tuple(open_sizes(program.variables[name].sizes) for name in program.feeds),
        source_graph=(
            PaddleSourceGraph(program, conversion.builder.constants) if program.can_be_cut else None
        ),
    )


def operators() -> Mapping[str, str]:
    return {name: summary(rule.convert) for name, rule in rules().items()}


def _parameters(program: Program, files: ProgramFiles) -> dict[str, np.ndarray]:
    if files.parameters is not None:
        return read_parameters(map_file(files.parameters), program.parameters)
    return {name: _read_separate(name, files) for name in program.parameters}


def _read_separate(name: str, files: ProgramFiles) -> np.ndarray:
    """Read a parameter from its own file in the folder of the program."""
    if os.path.basename(name) != name or name in (os.curdir, os.pardir) or "\0" in name:
        raise ValueError(f"parameter '{name}' is not a valid file name")
    path = check_inside(os.path.join(files.folder, name), files.program)
    try:
        content = map_file(path)
    except InputError as error:
        what = f"parameter '{name}' of the model is missing"
        why = "there is neither a .pdiparams file nor a file of that name next to the program"
        raise ModelError(
            what, why, "put the .pdiparams next to the program, under the same name"
        ) from error
    return read_parameters(content, [name])[name]


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
