"""Operators that stay as the file has them: what their results are, as far as that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fourfold.formats.onnx.records import NodeRecord, ValueRecord
from fourfold.formats.onnx.schema import AttributeField, Element, TensorField, graph_dtype
from fourfold.formats.onnx.scope import inner_graphs
from fourfold.formats.onnx.sizes import NamedSizes, declared_type
from fourfold.types import DType, Shape, TensorType

Types = Sequence[TensorType | None]

_GIVES = {
    DType.BOOL: {"Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"},
    DType.I64: {"NonZero", "NonMaxSuppression", "ArgMax", "ArgMin", "Shape", "Size"},
    DType.I32: {"MatMulInteger", "ConvInteger"},
}
# Their results have the shape that those of their inputs broadcast to.
_BROADCAST = {
    *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow"),
    *("PRelu", "Sub", "Sum", "Where", "Xor"),
}
# Their first result has the shape of their first input.
_LIKE_FIRST = {
    *("BatchNormalization", "BitwiseNot", "Cast", "CastLike", "Clip", "CumProd", "CumSum"),
    *("DequantizeLinear", "Dropout", "Erf", "Gelu", "GroupNormalization", "Hardmax", "IsInf"),
    *("IsNaN", "InstanceNormalization", "LayerNormalization", "LogSoftmax", "LpNormalization"),
    *("QuantizeLinear", "RMSNormalization", "ReverseSequence", "Scatter", "ScatterElements"),
    *("ScatterND", "Softmax", "Trilu"),
}


def result_types(
    record: NodeRecord, types: Types, values: Mapping[str, ValueRecord], named: NamedSizes
) -> list[TensorType | None]:
    """The types of an operator's results, by the file's own word or by what the operator is; None
    where only a run knows the shape.
    """
    branches = list(inner_graphs(record)) if record.op == "If" else []
    found: list[TensorType | None] = []
    for index, name in enumerate(record.outputs):
        value = values.get(name)
        type = None if value is None else declared_type(value, named)
        told = [
            declared_type(branch.outputs[index], named)
            for branch in branches
            if index < len(branch.outputs)
        ]
        if type is None and told and all(one == told[0] for one in told):
            type = told[0]
        shape = _shape(record, types) if type is None and index == 0 else None
        if shape is not None:
            type = TensorType(element_guess(record, index, types, value), shape)
        found.append(type)
    return found


def _shape(record: NodeRecord, types: Types) -> Shape | None:
    """The shape of the first result of operators that keep or broadcast those of their inputs."""
    known = [type.shape for type in types if type is not None]
    if record.domain or not known or len(known) != len([name for name in record.inputs if name]):
        return None
    if record.op in _LIKE_FIRST:
        return known[0]
    try:
        return np.broadcast_shapes(*known) if record.op in _BROADCAST else None
    except ValueError:
        return None


def stored_element(record: NodeRecord) -> int:
    """The element type of the tensor that an operator holds; floats where it holds none."""
    found = record.attributes.get("value")
    tensor = None if found is None else found.message(AttributeField.TENSOR)
    return Element.FLOAT if tensor is None else tensor.integer(TensorField.ELEMENT)


def element_guess(record: NodeRecord, index: int, types: Types, value: ValueRecord | None) -> DType:
    """The element type of a result that the file does not tell the type of."""
    if value is not None and value.element is not None:
        return graph_dtype(value.element)
    for branch in inner_graphs(record):
        place = index + 1 if record.op == "Loop" else index  # a loop first gives its condition
        if place < len(branch.outputs) and branch.outputs[place].element is not None:
            return graph_dtype(branch.outputs[place].element or 0)
    for dtype, ops in _GIVES.items():
        if record.op in ops:
            return dtype
    if record.op == "ConstantOfShape":
        return graph_dtype(stored_element(record))
    if record.op == "Cast" and "to" in record.attributes:
        return graph_dtype(record.attributes["to"].integer(AttributeField.INTEGER))
    if record.op == "TopK" and index == 1:
        return DType.I64
    places = {"Where": 1, "CastLike": 1, "DequantizeLinear": 1, "QuantizeLinear": 2}
    given = types[places.get(record.op, 0) :][:1]
    return next((type.dtype for type in given if type is not None), DType.F32)
