"""y = mean of x under a window over any number of axes, with dilation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Case, Op
from fourfold.ops.base.rules import FLOATS
from fourfold.ops.base.window import PoolAxes, pool_axes_type, tap_views
from fourfold.ops.kernels.pool import window_pool_variants
from fourfold.types import Shape


@dataclass(frozen=True)
class AveragePool(PoolAxes):
    """A pool; with `counts_padding`, padding counts as zeros in the mean."""

    counts_padding: bool = False


def reference(attributes: AveragePool, x: np.ndarray) -> np.ndarray:
    ones, fill = np.ones((1, *x.shape[1:-1], 1), x.dtype), 0.0
    counted: PoolAxes = attributes
    if attributes.counts_padding:
        around = zip(attributes.before, attributes.after, strict=True)
        ones = np.pad(ones, [(0, 0), *around, (0, 0)], constant_values=1)
        counted = replace(attributes, before=(0,) * attributes.axes)
    counts = sum(tap_views(counted, ones, fill))
    return np.asarray(sum(tap_views(attributes, x, fill)) / counts, x.dtype)


def combine(attributes: AveragePool, total: Expression, value: Expression) -> Expression:
    return total + value


def finish(
    attributes: AveragePool, total: Expression, inside: Expression, padded: Expression
) -> Expression:
    return total / (padded if attributes.counts_padding else inside)


def _pool(filter: Shape, stride: Shape, *, padding: bool, **others: Shape) -> AveragePool:
    ones, zeros = (1,) * len(filter), (0,) * len(filter)
    options = {"dilation": ones, "before": zeros, "after": zeros, **others}
    return AveragePool(filter, stride, **options, counts_padding=padding)


OP = Op(
    name="average_pool",
    attributes=AveragePool,
    infer=pool_axes_type("average_pool", FLOATS),
    reference=reference,
    heavy=True,
    variants=window_pool_variants(combine, 0.0, finish),
    cases=(
        Case(("f32[2,7,5]",), _pool((2,), (1,), padding=False, size=(6,))),
        Case(
            ("f32[1,7,5,3]",),
            _pool((3, 2), (2, 2), padding=False, before=(1, 0), after=(1, 0), size=(4, 3)),
        ),
        Case(
            ("f32[1,8,5,13]",),
            _pool((3, 3), (2, 3), padding=True, before=(1, 1), after=(1, 1), size=(5, 3)),
        ),
        Case(
            ("f32[1,7,9,8]",),
            _pool((2, 3), (1, 2), padding=False, dilation=(3, 2), after=(0, 1), size=(4, 4)),
        ),
        Case(
            ("f32[1,5,4,7,3]",),
            _pool((2, 2, 3), (2, 1, 2), padding=True, before=(1, 0, 1), size=(3, 3, 4)),
        ),
    ),
)
