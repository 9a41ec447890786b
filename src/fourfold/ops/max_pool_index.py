"""y = pixel number, within its image, of the first maximum under a window."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import const, where, widen
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import NUMBERS
from fourfold.ops.base.window import PoolAxes, pool_axes_type, tap_views
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.pool import TapSpan
from fourfold.ops.kernels.reduce import start_value
from fourfold.types import DType, TensorType

_rule = pool_axes_type("max_pool_index", NUMBERS)


def infer(attributes: PoolAxes, *types: TensorType | None) -> Types:
    (result,) = _rule(attributes, *types)
    return (result.with_dtype(DType.I32),)


def reference(attributes: PoolAxes, x: np.ndarray) -> np.ndarray:
    """Return pixel numbers in row-major order."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    inner = x.shape[1:-1]
    numbers = np.arange(np.prod(inner)).reshape(1, *inner, 1)
    values = np.stack([*tap_views(attributes, x, lowest)])
    pixel_numbers = np.stack([*tap_views(attributes, numbers, -1)])
    exists = pixel_numbers >= 0
    # If all values equal the fill value, the first one inside the image wins.
    best = np.where(exists, values, lowest).max(axis=0)
    first = np.argmax(exists & (values == best), axis=0)
    winners = np.take_along_axis(np.broadcast_to(pixel_numbers, values.shape), first[None], axis=0)
    return winners[0].astype(np.int32)


def build(context: NodeContext) -> None:
    """Walk over the window once. A later element must be larger to win."""
    attributes = context.attributes
    assert isinstance(attributes, PoolAxes)
    kernel = context.kernel("max_pool_index")
    source, target = context.read(kernel, 0), context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, *at = target.coordinates(pixel)
        spans = [TapSpan(kernel, source, attributes, axis, at[axis]) for axis in range(len(at))]
        best = kernel.variable(start_value(source.kind, float("-inf")), "best")
        winner = kernel.variable(const(-1, "int", 4), "winner")
        with ExitStack() as loops:
            taps = [loops.enter_context(span.walk()) for span in spans]
            coordinates = [span.place(tap) for span, tap in zip(spans, taps, strict=True)]
            number = kernel.let(source.pixel([const(0), *coordinates]), "number")
            value = source.load(source.pixel([image, *coordinates]), slice_)
            wins = kernel.let((value > best) | (winner < 0), "wins")
            kernel.set(winner, where(wins, widen(number, 4), winner))
            kernel.set(best, where(wins, value, best))
        target.store(pixel, slice_, winner)


OP = Op(
    name="max_pool_index",
    attributes=PoolAxes,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("pool", build),),
    cases=(
        Case(("f32[2,7,5]",), PoolAxes((2,), (1,), (1,), (0,), (0,), (6,))),
        Case(
            ("f32[2,7,5,3]",), PoolAxes((3, 2), (2, 2), (1, 1), (1, 0), (1, 0), (4, 3)), high=-0.5
        ),
        Case(("i32[1,7,9,13]",), PoolAxes((2, 3), (1, 2), (3, 2), (0, 1), (0, 1), (4, 4))),
        Case(
            ("f32[1,5,4,7,3]",),
            PoolAxes((2, 2, 3), (2, 1, 2), (2, 1, 1), (0,) * 3, (0,) * 3, (2, 3, 3)),
        ),
    ),
)
