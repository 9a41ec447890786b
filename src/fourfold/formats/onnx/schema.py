"""The numbers of ONNX's schema: fields of its messages, and element types."""

from __future__ import annotations

from enum import IntEnum

from fourfold.types import DType


class ModelField(IntEnum):
    """A file: one graph, and the versions of the operators that it is written in."""

    IR_VERSION = 1
    PRODUCER = 2
    PRODUCER_VERSION = 3
    VERSION = 5
    DESCRIPTION = 6
    GRAPH = 7
    OPSETS = 8
    METADATA = 14
    FUNCTIONS = 25


class OpsetField(IntEnum):
    DOMAIN = 1
    VERSION = 2


class EntryField(IntEnum):
    """A pair of strings: metadata, and where external data are."""

    KEY = 1
    VALUE = 2


class GraphField(IntEnum):
    NODES = 1
    NAME = 2
    INITIALIZERS = 5
    INPUTS = 11
    OUTPUTS = 12
    VALUES = 13
    SPARSE_INITIALIZERS = 15


class NodeField(IntEnum):
    INPUTS = 1
    OUTPUTS = 2
    NAME = 3
    OP = 4
    ATTRIBUTES = 5
    DOMAIN = 7
    OVERLOAD = 8


class AttributeField(IntEnum):
    NAME = 1
    FLOAT = 2
    INTEGER = 3
    TEXT = 4
    TENSOR = 5
    GRAPH = 6
    FLOATS = 7
    INTEGERS = 8
    TEXTS = 9
    TENSORS = 10
    GRAPHS = 11
    TYPE = 20
    REFERENCE = 21
    SPARSE_TENSOR = 22


class FunctionField(IntEnum):
    NAME = 1
    INPUTS = 4
    OUTPUTS = 5
    ATTRIBUTES = 6
    NODES = 7
    OPSETS = 9
    DOMAIN = 10
    DEFAULTS = 11
    OVERLOAD = 13


class ValueField(IntEnum):
    """A value with its type, which holds either a tensor or something that is no array."""

    NAME = 1
    TYPE = 2


class TypeField(IntEnum):
    TENSOR = 1
    SEQUENCE = 4
    MAP = 5
    SPARSE = 8
    OPTIONAL = 9


class TensorTypeField(IntEnum):
    ELEMENT = 1
    SHAPE = 2


class ShapeField(IntEnum):
    SIZES = 1


class SizeField(IntEnum):
    """One axis: a number, or a name for a size that is left open."""

    NUMBER = 1
    NAME = 2


class TensorField(IntEnum):
    SHAPE = 1
    ELEMENT = 2
    FLOATS = 4
    INTEGERS = 5
    TEXTS = 6
    LONGS = 7
    NAME = 8
    RAW = 9
    DOUBLES = 10
    UNSIGNED = 11
    EXTERNAL = 13
    LOCATION = 14


class Element(IntEnum):
    """Element types."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    UINT4 = 21
    INT4 = 22


# What the file itself has; graphs have half floats as f32 (see tensors.py).
STORED = {
    Element.FLOAT: DType.F32,
    Element.UINT8: DType.U8,
    Element.INT8: DType.I8,
    Element.UINT16: DType.U16,
    Element.INT16: DType.I16,
    Element.INT32: DType.I32,
    Element.INT64: DType.I64,
    Element.STRING: DType.STRING,
    Element.BOOL: DType.BOOL,
    Element.FLOAT16: DType.F16,
    Element.DOUBLE: DType.F64,
    Element.UINT32: DType.U32,
    Element.UINT64: DType.U64,
    Element.COMPLEX64: DType.C64,
    Element.COMPLEX128: DType.C128,
}
ELEMENTS = {dtype: element for element, dtype in STORED.items()}
_IN_GRAPHS = {
    Element.FLOAT16: DType.F32,
    Element.BFLOAT16: DType.F32,
    Element.UINT4: DType.U8,
    Element.INT4: DType.I8,
}
NIBBLES = (Element.UINT4, Element.INT4)  # bytes in graphs
EXTERNAL = 1  # of TensorField.LOCATION: the data are in a file of their own


def graph_dtype(element: int) -> DType:
    """The element type that graphs have for one of the file; VARIANT where there is none."""
    try:
        known = Element(element)
    except ValueError:
        return DType.VARIANT
    return _IN_GRAPHS.get(known) or STORED[known]


def port_dtype(element: int) -> DType:
    """The element type that callers see: the file's own, where NumPy has it."""
    return DType.F16 if element == Element.FLOAT16 else graph_dtype(element)
