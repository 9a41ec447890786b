"""y = (x - zero_point) * scale: the real values of quantized integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fourfold.codegen.expression import Expression, convert
from fourfold.graph import Node
from fourfold.ops.base import Alias, Case, Op, Types
from fourfold.ops.base.rules import NUMBERS, require_kind, takes, unary_cases
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class Dequantize:
    """The step between neighboring integers, and the integer that represents zero."""

    PARAMETERS: ClassVar = ("scale", "zero_point")

    scale: float
    zero_point: int


@takes("dequantize", 1)
def infer(attributes: Dequantize, x: TensorType) -> Types:
    require_kind("dequantize", NUMBERS, x)
    return (x.with_dtype(DType.F32),)


def reference(attributes: Dequantize, x: np.ndarray) -> np.ndarray:
    distance = x.astype(np.float32) - np.float32(attributes.zero_point)
    return np.asarray(distance * np.float32(attributes.scale), np.float32)


def pointwise(attributes: Dequantize, x: Expression) -> Expression:
    return (convert(x, "float") - attributes.zero_point) * attributes.scale


def view(node: Node, inputs: Types, outputs: Types) -> Alias:
    """Return an alias without a kernel: readers of the result convert the integers."""
    attributes = node.attributes
    assert isinstance(attributes, Dequantize)
    return Alias("dequantize", scale=attributes.scale, zero_point=attributes.zero_point)


OP = Op(
    name="dequantize",
    attributes=Dequantize,
    infer=infer,
    reference=reference,
    pointwise=pointwise,
    view=view,
    cases=(
        *unary_cases(Dequantize(0.02, 128), dtype="u8", low=0, high=255),
        *unary_cases(Dequantize(0.1, -5), dtype="i8", low=-128, high=127),
        Case(("i16[2,5,7,12]",), Dequantize(0.001, 0), low=-32768, high=32767),
        Case(("i32[3,5]",), Dequantize(0.01, 0), low=-1000, high=1000),
        Case(("f32[2,3,5]",), Dequantize(0.03, 0)),
    ),
)
