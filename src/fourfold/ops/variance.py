"""y = mean of (x - middle)**2 over the axes; `middle` is usually the mean of x."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.codegen.broadcast import load_for
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import (
    FLOATS,
    Reduce,
    reduced_type,
    require,
    require_kind,
    stretched,
    takes,
)
from fourfold.ops.kernels.reduce import Load, reduce_variants
from fourfold.types import TensorType

_reduced = reduced_type("variance", FLOATS)


@takes("variance", 2)
def infer(attributes: Reduce, x: TensorType, middle: TensorType) -> Types:
    require_kind("variance", FLOATS, x, middle)
    fits = stretched("variance", x.shape, middle.shape) == x.shape
    require(fits, "variance", f"{middle} is larger than {x}")
    return _reduced(attributes, x)


def reference(attributes: Reduce, x: np.ndarray, middle: np.ndarray) -> np.ndarray:
    squares = np.square(x.astype(np.float64) - middle)
    mean = np.mean(squares, axis=attributes.axes, keepdims=attributes.keep_dims)
    return np.asarray(mean, x.dtype)


def squares(context: NodeContext, kernel: Kernel, view: View) -> Load:
    middle = context.read(kernel, 1, "middle")

    def load(pixel: Expression, slice_: Expression) -> Expression:
        other = load_for(middle, view, pixel, slice_)
        difference = kernel.let(view.load(pixel, slice_) - other, "difference")
        return difference * difference

    return load


def _case(x: str, middle: str, *axes: int, keep: bool = True) -> Case:
    return Case((f"f32{x}", f"f32{middle}"), Reduce(axes, keep))


OP = Op(
    name="variance",
    attributes=Reduce,
    infer=infer,
    reference=reference,
    variants=reduce_variants(
        operator.add, 0.0, lambda total, count: total * (1.0 / count), squares
    ),
    cases=(
        _case("[7]", "[1]", 0, keep=False),
        _case("[7]", "[]", 0),
        _case("[3,5]", "[3,1]", 1),
        _case("[3,5]", "[5]", 0, keep=False),
        _case("[2,5,7,13]", "[2,1,1,13]", 1, 2),
        _case("[2,5,7,13]", "[2,5,7,1]", 3),
        _case("[2,37,41,3]", "[2,1,1,3]", 1, 2),
        _case("[2,11,1,29]", "[2,11,1,29]", 0, 2),
        _case("[2,3,1,5,7]", "[2,1,1,5,1]", 1, 4, keep=False),
    ),
)
