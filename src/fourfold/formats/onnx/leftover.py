"""Infers result types of operators that the CPU engine runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fourfold.formats.onnx.file import NodeRecord, ValueRecord
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
# Operators whose result has the broadcast shape of their inputs.
_BROADCAST = {
    *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow"),
    *("PRelu", "Sub", "Sum", "Where", "Xor"),
}
# Operators whose first result has the shape of their first input.
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
    """Return the types of an operator's results, from the file or from the operator.

    None if the shape is known only at run time.
    """
    branches = list(inner_graphs(record)) if record.op == "If" else []
    result: list[TensorType | None] = []
    for index, name in enumerate(record.outputs):
        value = values.get(name)
        type = None if value is None else declared_type(value, named)
        branch_types = [
            declared_type(branch.outputs[index], named)
            for branch in branches
            if index < len(branch.outputs)
        ]
        if type is None and branch_types and all(one == branch_types[0] for one in branch_types):
            type = branch_types[0]
        shape = _shape(record, types) if type is None and index == 0 else None
        if shape is not None:
            type = TensorType(element_guess(record, index, types, value), shape)
        result.append(type)
    return result


def _shape(record: NodeRecord, types: Types) -> Shape | None:
    """Return the shape of the first result if the operator keeps or broadcasts its input shapes."""
    shapes = [type.shape for type in types if type is not None]
    if record.domain or not shapes or len(shapes) != len([name for name in record.inputs if name]):
        return None
    if record.op in _LIKE_FIRST:
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes) if record.op in _BROADCAST else None
    except ValueError:
        return None


def stored_element(record: NodeRecord) -> int:
    """Return the element type of an operator's tensor attribute; float without one."""
    attribute = record.attributes.get("value")
    tensor = None if attribute is None else attribute.message(AttributeField.TENSOR)
    return Element.FLOAT if tensor is None else tensor.integer(TensorField.ELEMENT)


def element_guess(record: NodeRecord, index: int, types: Types, value: ValueRecord | None) -> DType:
    """Guess the element type of a result whose type is not in the file."""
    if value is not None and value.element is not None:
        return graph_dtype(value.element)
    for branch in inner_graphs(record):
        # The first output of a loop is its condition.
        position = index + 1 if record.op == "Loop" else index
        if position < len(branch.outputs) and branch.outputs[position].element is not None:
            return graph_dtype(branch.outputs[position].element or 0)
    for dtype, ops in _GIVES.items():
        if record.op in ops:
            return dtype
    if record.op == "ConstantOfShape":
        return graph_dtype(stored_element(record))
    if record.op == "Cast" and "to" in record.attributes:
        return graph_dtype(record.attributes["to"].integer(AttributeField.INTEGER))
    if record.op == "TopK" and index == 1:
        return DType.I64
    positions = {"Where": 1, "CastLike": 1, "DequantizeLinear": 1, "QuantizeLinear": 2}
    candidates = types[positions.get(record.op, 0) :][:1]
    return next((type.dtype for type in candidates if type is not None), DType.F32)
