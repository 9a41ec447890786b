"""Named dynamic sizes, and the result types of operators that the CPU engine runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fourfold.errors import InputError
from fourfold.formats.budget import check_shape
from fourfold.formats.inputs import SHAPE_NEEDED, DeclaredInput, open_sizes, shape_needed
from fourfold.formats.onnx.file import NodeRecord, Size, ValueRecord
from fourfold.formats.onnx.schema import (
    AttributeField,
    Element,
    TensorField,
    graph_dtype,
    port_dtype,
)
from fourfold.formats.onnx.scope import inner_graphs
from fourfold.types import OPEN, DType, OpenInput, Shape, TensorType

NamedSizes = Mapping[str, int]


def settle_names(inputs: Sequence[ValueRecord], shapes: Mapping[str, Shape]) -> NamedSizes:
    """Return the named sizes that follow from the caller's shapes; an unknown batch is 1."""
    settled: dict[str, int] = {}
    for value in inputs:
        shape = shapes.get(value.name, ())
        if len(shape) != len(value.sizes or ()):
            continue  # a wrong rank is reported where shapes are checked
        for own, size in zip(value.sizes or (), shape, strict=True):
            if isinstance(own, str) and own and settled.setdefault(own, int(size)) != size:
                raise _contradiction(own, settled[own], int(size))
    for name in _batches(inputs):
        settled.setdefault(name, 1)
    return settled


def _batches(inputs: Sequence[ValueRecord]) -> Iterator[str]:
    """Yield the names of batch sizes: those of a first axis, or with 'batch' in the name."""
    for value in inputs:
        for axis, size in enumerate(value.sizes or ()):
            if isinstance(size, str) and size and (axis == 0 or "batch" in size.lower()):
                yield size


def declare_input(value: ValueRecord, named: NamedSizes, requested: Shape | None) -> DeclaredInput:
    """Declare an input with its known sizes.

    Raises InputError if a size other than the batch is unknown.
    """
    sizes = _own_sizes(value, requested)
    dtype = DType.VARIANT if value.element is None else port_dtype(value.element)
    shape = []
    for axis, size in enumerate(sizes):
        resolved = size if isinstance(size, int) else named.get(size)
        if resolved is None and axis == 0:
            resolved = 1
        if resolved is None and requested is None:
            raise shape_needed(value.name, _declared_sizes(value))
        shape.append(1 if resolved is None else resolved)
    check_shape(tuple(shape))
    left_open = tuple(size if isinstance(size, int) else OPEN for size in sizes)
    return DeclaredInput(value.name, TensorType(dtype, tuple(shape)), open_sizes(left_open))


def _own_sizes(value: ValueRecord, requested: Shape | None) -> tuple[Size, ...]:
    """Return the sizes in the file; if it has none, the rank of the caller's shape."""
    if value.sizes is not None:
        return value.sizes
    if requested is None and value.element is not None:
        what = SHAPE_NEEDED.format(value.name)
        why = "the model does not declare its rank"
        raise InputError(what, why, f"pass shapes={{{value.name!r}: (...)}}")
    return ("",) * len(requested or ())


def _declared_sizes(value: ValueRecord) -> Shape:
    return tuple(size if isinstance(size, int) else OPEN for size in value.sizes or ())


def open_inputs(inputs: Sequence[ValueRecord]) -> tuple[OpenInput, ...]:
    """Return the inputs as the file declares them; () if one does not declare type or rank."""
    if any(value.element is None or value.sizes is None for value in inputs):
        return ()
    batches = set(_batches(inputs))  # states of recurrent networks often have it as the second
    return tuple(
        OpenInput(
            value.name,
            port_dtype(value.element),
            _declared_sizes(value),
            tuple(n for n, size in enumerate(value.sizes or ()) if n == 0 or size in batches),
        )
        for value in inputs
        if value.element is not None
    )


def _contradiction(name: str, one: int, other: int) -> InputError:
    why = f"the model uses '{name}' for both"
    return InputError(f"the shapes set one size to {one} and to {other}", why, "make them equal")


def declared_type(value: ValueRecord, named: NamedSizes) -> TensorType | None:
    """Return the type of a value in the file; None if a size is unknown."""
    if value.element is None or value.sizes is None:
        return None
    shape = tuple(size if isinstance(size, int) else named.get(size, OPEN) for size in value.sizes)
    if OPEN in shape:
        return None
    check_shape(shape)
    return TensorType(graph_dtype(value.element), shape)


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
