"""y = a << b or a >> b; a shift by a negative number or by all bits leaves none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression, where
from fourfold.codegen.intrinsics import shift_left, shift_right
from fourfold.ops.base import Case, Op
from fourfold.ops.base.rules import Infer, broadcast
from fourfold.types import DType

# Kernels compute with 32 bits, which are too few for wider integers.
_NARROW = frozenset((DType.I8, DType.U8, DType.I16, DType.U16, DType.I32))
_infer: Infer = broadcast("bit_shift", _NARROW)


@dataclass(frozen=True)
class BitShift:
    """The direction: left fills with zeros, right with the sign."""

    left: bool


def reference(attributes: BitShift, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    valid = (b >= 0) & (b < a.dtype.itemsize * 8)
    count = np.where(valid, b, 0).astype(np.int64)
    if attributes.left:
        moved = np.where(valid, a.astype(np.int64) << count, 0)
    else:
        moved = np.where(valid, a.astype(np.int64) >> count, np.where(a < 0, -1, 0))
    return moved.astype(a.dtype)


def pointwise(attributes: BitShift, a: Expression, b: Expression) -> Expression:
    valid = (b >= 0) & (b < 32)
    if attributes.left:
        return where(valid, shift_left(a, where(valid, b, 0)), 0)
    return shift_right(a, where(valid, b, 31))


_LEFT, _RIGHT = BitShift(left=True), BitShift(left=False)
OP = Op(
    name="bit_shift",
    attributes=BitShift,
    infer=_infer,
    reference=reference,
    pointwise=pointwise,
    cases=(
        Case(("i32[]", "i32[]"), _LEFT, low=0, high=9),
        Case(("i32[3,5]", "i32[5]"), _LEFT, low=-40, high=40),
        Case(("i32[2,5,7,13]", "i32[2,5,7,13]"), _RIGHT, low=-40, high=40),
        Case(("i8[3,7]", "i8[3,7]"), _LEFT, low=-12, high=12),
        Case(("i8[3,7]", "i8[3,1]"), _RIGHT, low=-12, high=12),
        Case(("u8[3,7]", "u8[7]"), _RIGHT, low=0, high=12),
        Case(("i16[3,4]", "i16[4]"), _LEFT, constants=(1,), low=0, high=20),
    ),
)
