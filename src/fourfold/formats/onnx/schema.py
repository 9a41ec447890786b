"""Numbers of ONNX's protobuf schema: message fields and element types."""

from __future__ import annotations

from enum import IntEnum

from fourfold.types import DType


class ModelField(IntEnum):
    """Fields of a file: one graph, and the versions of its operator sets."""

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
    """Fields of a key-value pair: metadata, and locations of external data."""

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
    """Fields of a value and its type: a tensor, or something else, such as a sequence."""

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
    """Fields of one axis: a number, or a name for a dynamic size."""

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


# Element types as stored; graphs use f32 for float16 (see tensors.py).
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
NIBBLES = (Element.UINT4, Element.INT4)  # stored as bytes in graphs
EXTERNAL = 1  # value of TensorField.LOCATION for data in an external file


def graph_dtype(element: int) -> DType:
    """Return the graph's element type for one of the file; VARIANT if there is none."""
    try:
        type_ = Element(element)
    except ValueError:
        return DType.VARIANT
    return _IN_GRAPHS.get(type_) or STORED[type_]


def port_dtype(element: int) -> DType:
    """Return the element type that callers see: the file's own if NumPy has it."""
    return DType.F16 if element == Element.FLOAT16 else graph_dtype(element)
