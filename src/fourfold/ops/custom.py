"""A user-defined op for a custom operator (see `fourfold.register_op`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression
from fourfold.custom import CUSTOM_OPS
from fourfold.ops.base import Op, Types, Variant
from fourfold.ops.kernels.pointwise import pointwise_kernel
from fourfold.types import TensorType


@dataclass(frozen=True)
class Custom:
    """The op's name, the operator's options, and the result types that the file declares."""

    name: str
    options: bytes
    types: Types


def infer(attributes: Custom, *types: TensorType | None) -> Types:
    rule = CUSTOM_OPS[attributes.name].infer
    return attributes.types if rule is None else tuple(rule(attributes.options, *types))


def reference(attributes: Custom, *arrays: np.ndarray | None) -> tuple[np.ndarray, ...]:
    results = CUSTOM_OPS[attributes.name].reference(attributes.options, *arrays)
    outputs = results if isinstance(results, tuple) else (results,)
    return tuple(
        np.asarray(array, type.dtype.numpy)
        for array, type in zip(outputs, attributes.types, strict=True)
    )


def _build_kernel(context: NodeContext) -> None:
    assert isinstance(context.attributes, Custom)
    kernel = CUSTOM_OPS[context.attributes.name].kernel
    assert kernel is not None
    kernel(context)


def _refuse_kernel(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, Custom)
    registered = CUSTOM_OPS[context.attributes.name].kernel is not None
    return None if registered else "it was registered without a kernel"


def _build_pointwise(context: NodeContext) -> None:
    assert isinstance(context.attributes, Custom)
    function = CUSTOM_OPS[context.attributes.name].pointwise
    assert function is not None

    def pointwise(attributes: Custom, *operands: Expression) -> Expression:
        result: Expression = function(attributes.options, *operands)
        return result

    pointwise_kernel(context, "custom", pointwise)


def _refuse_pointwise(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, Custom)
    registered = CUSTOM_OPS[context.attributes.name].pointwise is not None
    return None if registered else "it was registered without an expression"


OP = Op(
    name="custom",
    attributes=Custom,
    infer=infer,
    reference=reference,
    variants=(
        Variant("kernel", _build_kernel, _refuse_kernel),
        Variant("pointwise", _build_pointwise, _refuse_pointwise),
    ),
    cases=(),
)
