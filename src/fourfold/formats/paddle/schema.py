"""Field numbers of Paddle's protobuf messages, attribute kinds and element types."""

from __future__ import annotations

from enum import IntEnum

from fourfold.types import DType


class ProgramField(IntEnum):
    BLOCKS = 1


class BlockField(IntEnum):
    VARIABLES = 3
    OPERATORS = 4


class VariableField(IntEnum):
    NAME = 1
    TYPE = 2
    PERSISTABLE = 3


class TypeField(IntEnum):
    KIND = 1
    TENSOR = 3


class TensorField(IntEnum):
    """Fields of a tensor description, which also precedes the data of each parameter."""

    ELEMENT = 1
    SIZES = 2


LOD_TENSOR = 7  # the kind of array variables
DESCRIPTION = 1  # the field with the tensor description


class OperatorField(IntEnum):
    INPUTS = 1
    OUTPUTS = 2
    TYPE = 3
    ATTRIBUTES = 4


class ParameterField(IntEnum):
    NAME = 1
    ARGUMENTS = 2


class AttributeField(IntEnum):
    NAME = 1
    KIND = 2
    INTEGER = 3
    FLOAT = 4
    TEXT = 5
    INTEGERS = 6
    FLOATS = 7
    TEXTS = 8
    FLAG = 10
    FLAGS = 11
    LONG = 13
    LONGS = 15
    DOUBLES = 16
    DOUBLE = 19


class AttributeKind(IntEnum):
    INTEGER = 0
    FLOAT = 1
    TEXT = 2
    INTEGERS = 3
    FLOATS = 4
    TEXTS = 5
    FLAG = 6
    FLAGS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11
    DOUBLES = 12
    DOUBLE = 15


FEED, FETCH = 9, 10  # kinds of the variables for inputs and outputs
ELEMENTS = {
    0: DType.BOOL,
    1: DType.I16,
    2: DType.I32,
    3: DType.I64,
    4: DType.F16,
    5: DType.F32,
    6: DType.F64,
    20: DType.U8,
    21: DType.I8,
}
# Names of element types in attributes and in types of the newer form.
NAMED_ELEMENTS = {
    "bool": DType.BOOL,
    "int8": DType.I8,
    "uint8": DType.U8,
    "int16": DType.I16,
    "int32": DType.I32,
    "int64": DType.I64,
    "float16": DType.F16,
    "float32": DType.F32,
    "float64": DType.F64,
}
SHORT_ELEMENTS = {
    "bool": DType.BOOL,
    "i8": DType.I8,
    "ui8": DType.U8,
    "i16": DType.I16,
    "i32": DType.I32,
    "i64": DType.I64,
    "f16": DType.F16,
    "f32": DType.F32,
    "f64": DType.F64,
}
