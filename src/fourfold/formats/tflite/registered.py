"""Converts custom operators that a user registered (see fourfold.register_op)."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.custom import CUSTOM_OPS
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.rule import Rule
from fourfold.graph import Node
from fourfold.op.registry import registry
from fourfold.ops.custom import Custom
from fourfold.types import DType, TensorType


def registered_rule(custom_code: str) -> Rule | None:
    return Rule(_convert) if custom_code in CUSTOM_OPS else None


def _convert(op: Operation) -> None:
    """the registered implementation."""
    options = op.record.custom_options.tobytes()
    custom = Custom(op.record.custom_code, options, tuple(_graph_types(op.declared, op.clamped)))
    inputs = tuple(None if name is None else op.type_of(name) for name in op.inputs)
    types = registry()["custom"].infer(custom, *inputs)
    custom = Custom(custom.name, options, types)
    op.builder.nodes.append(Node("custom", op.inputs, op.outputs, custom, name=op.name))
    op.builder.types.update(zip(op.outputs, types, strict=True))


def _graph_types(types: Sequence[TensorType], real: bool) -> list[TensorType]:
    """Return the result types in the graph; f32 for quantized ones if inputs are real numbers."""
    small = (DType.I8, DType.U8, DType.I16)
    return [type.with_dtype(DType.F32) if real and type.dtype in small else type for type in types]
