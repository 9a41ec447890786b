"""y[n,p,c] = x[n,...,c] sampled at grid[n,p]: coordinates from -1 to 1, the last axis first.

A position between elements takes the nearest one or a weighted sum. A position outside is zero, the
border, or the reflection at the border.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import (
    Expression,
    absolute,
    const,
    convert,
    floor,
    maximum,
    minimum,
    remainder,
    round_even,
    where,
)
from fourfold.codegen.kernel import Kernel
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.reduce import start_value
from fourfold.processing.resampling import MODES
from fourfold.types import TensorType

PADDINGS = ("zeros", "border", "reflection")
CUBIC = -0.75  # coefficient of the cubic curve
TAPS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}


@dataclass(frozen=True)
class GridSample:
    """Interpolation mode and padding outside of x.

    With `align_corners`, -1 and 1 are the centers of the corner elements, otherwise their outer
    edges.
    """

    mode: str = "linear"
    padding: str = "zeros"
    align_corners: bool = False

    def ends(self, size: int) -> tuple[float, float]:
        """Return the positions at which an axis is reflected."""
        return (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)

    def scale(self, size: int) -> tuple[float, float]:
        """Return the factor and the offset from a grid coordinate to a position."""
        return ((size - 1) if self.align_corners else size) / 2, (size - 1) / 2


@takes("grid_sample", 2)
def infer(attributes: GridSample, x: TensorType, grid: TensorType) -> Types:
    op = "grid_sample"
    require_kind(op, FLOATS, x, grid)
    supported = attributes.mode in MODES and attributes.padding in PADDINGS
    require(supported, op, f"{attributes} has an unknown mode or padding")
    fits = x.rank > 2 and grid.rank == x.rank and grid.channels == x.rank - 2
    require(fits and grid.shape[0] == x.shape[0], op, f"{grid} does not hold coordinates of {x}")
    require(min(x.shape) > 0, op, f"{x} is empty")
    return (x.with_shape(*grid.shape[:-1], x.channels),)


def reference(attributes: GridSample, x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    axes = [_taps(attributes, grid[..., -1 - n], x.shape[1 + n]) for n in range(x.ndim - 2)]
    images = np.arange(len(x)).reshape(-1, *[1] * (grid.ndim - 2))
    y = np.zeros((*grid.shape[:-1], x.shape[-1]), np.float32)
    for taps in product(*axes):
        indices, weights = zip(*taps, strict=True)
        y += x[(images, *indices)] * np.prod(weights, axis=0)[..., None]
    return y.astype(x.dtype)


def _taps(
    attributes: GridSample, grid: np.ndarray, size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the elements along one axis that contribute to each position, and their weights."""
    factor, shift = attributes.scale(size)
    position = grid.astype(np.float32) * np.float32(factor) + np.float32(shift)
    position = np.rint(position) if attributes.mode == "nearest" else position
    low, high = attributes.ends(size)
    if attributes.padding == "border":
        position = np.where(
            (position < low) | (position > high), np.clip(position, 0, size - 1), position
        )
    elif attributes.padding == "reflection":
        position = _mirrored(position, low, high)
    position = np.clip(np.nan_to_num(position, nan=-3), -3, size + 2)
    below = np.floor(position)
    for tap in TAPS[attributes.mode]:
        index, weight = below + tap, np.asarray(_weight(attributes.mode, tap, position - below))
        if attributes.padding == "zeros":
            weight = weight * ((index >= 0) & (index < size))
        elif attributes.padding == "reflection":
            index = _mirrored(index, low, high)
        yield index.clip(0, size - 1).astype(np.int64), weight


def _mirrored(position: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the position inside that a position outside is reflected to."""
    span = np.float32(high - low)
    if span == 0:
        return np.full_like(position, low)
    distance = np.fmod(np.abs(position - np.float32(low)), 2 * span)
    return np.where(distance > span, 2 * span - distance, distance) + np.float32(low)


def _weight(mode: str, tap: int, fraction: Any) -> Any:
    """Return the weight of a tap, for arrays or expressions.

    `fraction` is how far a position is between its two neighbors.
    """
    if mode == "nearest":
        return fraction * 0.0 + 1.0
    distance = fraction - float(tap) if tap <= 0 else float(tap) - fraction
    if mode == "linear":
        return 1.0 - distance
    if tap in (0, 1):
        return (distance * (CUBIC + 2) - (CUBIC + 3)) * distance * distance + 1.0
    return ((distance - 5.0) * distance + 8.0) * distance * CUBIC - 4 * CUBIC


def build(context: NodeContext) -> None:
    """Each pixel computes its position and the weighted sum around it."""
    attributes = context.attributes
    assert isinstance(attributes, GridSample)
    kernel = context.kernel("grid_sample")
    view, grid = context.read(kernel, 0), context.read(kernel, 1, "grid")
    target = context.write(kernel)
    sizes = context.input.shape[1:-1]
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image = target.coordinates(pixel)[0]
        axes = []
        for number, size in enumerate(sizes):
            coordinate = convert(grid.element(pixel, len(sizes) - 1 - number), "float")
            axes.append(_kernel_taps(kernel, attributes, coordinate, size))
        total = kernel.variable(start_value(view.kind, 0.0), "total")
        for taps in product(*axes):
            weight, inside = const(1.0, "float"), const(True)
            for _, mine, exists in taps:
                weight, inside = weight * mine, inside & exists
            source = view.pixel([image, *(index for index, _, _ in taps)])
            value = view.load(source, slice_, None if inside.number else inside)
            kernel.add(total, value * convert(kernel.let(weight, "weight"), view.kind))
        target.store(pixel, slice_, total)


_Tap = tuple[Expression, Expression, Expression]  # index, weight, whether it is inside


def _kernel_taps(
    kernel: Kernel, attributes: GridSample, coordinate: Expression, size: int
) -> list[_Tap]:
    """Return the taps of one position along an axis, in a kernel."""
    factor, shift = attributes.scale(size)
    position = kernel.let(coordinate * factor + shift, "place")
    position = (
        kernel.let(round_even(position), "place") if attributes.mode == "nearest" else position
    )
    low, high = attributes.ends(size)
    if attributes.padding == "border":
        outside = (position < low) | (position > high)
        position = where(outside, minimum(maximum(position, 0.0), size - 1.0), position)
    elif attributes.padding == "reflection":
        position = _kernel_mirrored(kernel, position, low, high)
    # With this order of operands, NaN becomes a position far outside.
    position = kernel.let(minimum(size + 2.0, maximum(-3.0, position)), "place")
    below = kernel.let(floor(position), "below")
    fraction, taps = kernel.let(position - below, "way"), []
    for tap in TAPS[attributes.mode]:
        index, inside = below + float(tap), const(True)
        if attributes.padding == "reflection":
            index = _kernel_mirrored(kernel, kernel.let(index, "index"), low, high)
        element = kernel.let(convert(index, "int"), "index")
        if attributes.padding == "zeros":
            inside = kernel.let((element >= 0) & (element < size), "inside")
        else:
            element = kernel.let(minimum(maximum(element, 0), size - 1), "index")
        weight = kernel.let(_weight(attributes.mode, tap, fraction), "weight")
        taps.append((element, weight, inside))
    return taps


def _kernel_mirrored(kernel: Kernel, position: Expression, low: float, high: float) -> Expression:
    span = high - low
    if span == 0:
        return const(low, "float")
    distance = kernel.let(remainder(absolute(position - low), 2 * span), "way")
    return kernel.let(where(distance > span, 2 * span - distance, distance) + low, "place")


OP = Op(
    name="grid_sample",
    attributes=GridSample,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("sample", build),),
    cases=(
        # Coordinates reach beyond -1 and 1.
        Case(("f32[1,1,1,1]", "f32[1,1,1,2]"), GridSample()),
        Case(("f32[2,5,7,3]", "f32[2,3,11,2]"), GridSample()),
        Case(("f32[1,5,7,13]", "f32[1,7,5,2]"), GridSample("linear", "border", True)),
        Case(("f32[1,5,7,8]", "f32[1,7,5,2]"), GridSample("linear", "reflection")),
        Case(("f32[2,5,7,4]", "f32[2,5,5,2]"), GridSample("nearest")),
        Case(("f32[1,5,1,3]", "f32[1,5,5,2]"), GridSample("nearest", "reflection", True)),
        Case(("f32[1,5,7,3]", "f32[1,3,5,2]"), GridSample("cubic", "zeros", True)),
        Case(("f32[1,5,7,3]", "f32[1,3,5,2]"), GridSample("cubic", "border")),
        Case(("f32[1,3,4,3]", "f32[1,3,5,2]"), GridSample("cubic", "reflection")),
        Case(("f32[1,3,5,4,3]", "f32[1,2,3,5,3]"), GridSample("linear")),
        Case(("f32[2,7,5]", "f32[2,9,1]"), GridSample("linear", "border")),
    ),
)
