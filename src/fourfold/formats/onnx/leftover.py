"""Operators that stay as the file has them: what their results are, as far as that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.formats.onnx.records import NodeRecord, ValueRecord
from fourfold.formats.onnx.schema import AttributeField, graph_dtype
from fourfold.formats.onnx.scope import inner_graphs
from fourfold.formats.onnx.sizes import NamedSizes, declared_type
from fourfold.types import DType, TensorType

_GIVES = {
    DType.BOOL: {"IsNaN", "IsInf", "StringNormalizer", "RegexFullMatch", "Not", "And", "Or", "Xor"},
    DType.I64: {"NonZero", "NonMaxSuppression", "ArgMax", "ArgMin", "Shape", "Size"},
    DType.I32: {"MatMulInteger", "ConvInteger"},
}


def result_types(
    record: NodeRecord,
    types: Sequence[TensorType | None],
    values: Mapping[str, ValueRecord],
    named: NamedSizes,
) -> list[TensorType | None]:
    """The types of an operator's results by the file's own word; None where it has none."""
    said = [values.get(name) for name in record.outputs]
    branches = list(inner_graphs(record)) if record.op == "If" else []
    found: list[TensorType | None] = []
    for index, value in enumerate(said):
        type = None if value is None else declared_type(value, named)
        told = [
            declared_type(branch.outputs[index], named)
            for branch in branches
            if index < len(branch.outputs)
        ]
        if type is None and told and all(one == told[0] for one in told):
            type = told[0]
        found.append(type)
    return found


def element_guess(
    record: NodeRecord, index: int, types: Sequence[TensorType | None], value: ValueRecord | None
) -> DType:
    """The element type of a result whose shape is known at run time only."""
    if value is not None and value.element is not None:
        return graph_dtype(value.element)
    for branch in inner_graphs(record):
        skipped = 0 if record.op != "Loop" else -1  # a loop's first result is its condition
        place = index - skipped
        if place < len(branch.outputs) and branch.outputs[place].element is not None:
            return graph_dtype(branch.outputs[place].element or 0)
    for dtype, ops in _GIVES.items():
        if record.op in ops:
            return dtype
    if record.op == "Cast" and "to" in record.attributes:
        return graph_dtype(record.attributes["to"].integer(AttributeField.INTEGER))
    if record.op == "TopK" and index == 1:
        return DType.I64
    given = types[1:2] if record.op == "Where" else types[:1]
    return next((type.dtype for type in given if type is not None), DType.F32)
