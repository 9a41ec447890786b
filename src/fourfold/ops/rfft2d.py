"""y = FFT of real x over the last two axes, without the redundant half of the last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import require, require_kind, takes
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class Rfft2d:
    """The length of the transform on both axes: shorter crops x, longer adds zeros."""

    size: tuple[int, int]


@takes("rfft2d", 1)
def infer(attributes: Rfft2d, x: TensorType) -> Types:
    require_kind("rfft2d", frozenset({DType.F32}), x)
    require(x.rank >= 2, "rfft2d", f"{x} has fewer than two axes")
    rows, columns = attributes.size
    require(min(rows, columns) > 0, "rfft2d", f"a transform cannot be {list(attributes.size)} long")
    return (TensorType(DType.C64, (*x.shape[:-2], rows, columns // 2 + 1)),)


def reference(attributes: Rfft2d, x: np.ndarray) -> np.ndarray:
    return np.fft.rfft2(x, attributes.size).astype(np.complex64)


OP = Op(
    name="rfft2d",
    attributes=Rfft2d,
    infer=infer,
    reference=reference,
    heavy=True,
    cases=(
        Case(("f32[3,1,13]",), Rfft2d((1, 13))),
        Case(("f32[5,7]",), Rfft2d((4, 8))),
    ),
)
