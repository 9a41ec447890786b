"""y[n,p,c] = x[n,...,c] at the place that grid[n,p] names: -1 to 1 along each axis, the last first.

What lies between elements is the nearest, or several weighed; what lies outside is zero, the
border, or what a mirror at the border shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import (
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
from fourfold.kernel.kernel import Kernel
from fourfold.kernels.grid import plain_grid
from fourfold.kernels.reduce import least
from fourfold.op import Case, Op, Types, Variant
from fourfold.op.rules import FLOATS, require, require_kind, takes
from fourfold.resampling import MODES
from fourfold.types import TensorType

PADDINGS = ("zeros", "border", "reflection")
BEND = -0.75  # of the cubic curve
TAPS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}


@dataclass(frozen=True)
class GridSample:
    """How elements are made, what is outside, and whether -1 and 1 are the centres of the corners
    or their outer ends.
    """

    mode: str = "linear"
    padding: str = "zeros"
    align_corners: bool = False

    def ends(self, size: int) -> tuple[float, float]:
        """Where a mirror stands at either end of an axis."""
        return (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)

    def scale(self, size: int) -> tuple[float, float]:
        """What a coordinate is multiplied by, and what is added, to find its place."""
        return ((size - 1) if self.align_corners else size) / 2, (size - 1) / 2


@takes("grid_sample", 2)
def infer(attributes: GridSample, x: TensorType, grid: TensorType) -> Types:
    op = "grid_sample"
    require_kind(op, FLOATS, x, grid)
    known = attributes.mode in MODES and attributes.padding in PADDINGS
    require(known, op, f"there is no {attributes}")
    fits = x.rank > 2 and grid.rank == x.rank and grid.channels == x.rank - 2
    require(fits and grid.shape[0] == x.shape[0], op, f"{grid} names no places in {x}")
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
    """The elements along one axis that count for each place, and how much."""
    factor, shift = attributes.scale(size)
    place = grid.astype(np.float32) * np.float32(factor) + np.float32(shift)
    place = np.rint(place) if attributes.mode == "nearest" else place
    low, high = attributes.ends(size)
    if attributes.padding == "border":
        place = np.where((place < low) | (place > high), np.clip(place, 0, size - 1), place)
    elif attributes.padding == "reflection":
        place = _mirrored(place, low, high)
    place = np.clip(place, -3, size + 2)
    below = np.floor(place)
    for tap in TAPS[attributes.mode]:
        index, weight = below + tap, np.asarray(_weight(attributes.mode, tap, place - below))
        if attributes.padding == "zeros":
            weight = weight * ((index >= 0) & (index < size))
        elif attributes.padding == "reflection":
            index = _mirrored(index, low, high)
        yield index.clip(0, size - 1).astype(np.int64), weight


def _mirrored(place: np.ndarray, low: float, high: float) -> np.ndarray:
    """Where a place outside shows what is inside, back and forth between two mirrors."""
    span = np.float32(high - low)
    if span == 0:
        return np.full_like(place, low)
    way = np.fmod(np.abs(place - np.float32(low)), 2 * span)
    return np.where(way > span, 2 * span - way, way) + np.float32(low)


def _weight(mode: str, tap: int, way: Any) -> Any:
    """How much a tap counts where a place is on its `way` from one element to the next: of arrays
    as of expressions.
    """
    if mode == "nearest":
        return way * 0.0 + 1.0
    distance = way - float(tap) if tap <= 0 else float(tap) - way
    if mode == "linear":
        return 1.0 - distance
    if tap in (0, 1):
        return (distance * (BEND + 2) - (BEND + 3)) * distance * distance + 1.0
    return ((distance - 5.0) * distance + 8.0) * distance * BEND - 4 * BEND


def build(context: NodeContext) -> None:
    """Each pixel finds its place, and weighs what is around it."""
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
            found = convert(grid.element(pixel, len(sizes) - 1 - number), "float")
            axes.append(_kernel_taps(kernel, attributes, found, size))
        total = kernel.variable(least(view.kind, 0.0), "total")
        for taps in product(*axes):
            weight, inside = const(1.0, "float"), const(True)
            for _, mine, exists in taps:
                weight, inside = weight * mine, inside & exists
            place = view.pixel([image, *(index for index, _, _ in taps)])
            value = view.load(place, slice_, None if inside.number else inside)
            kernel.add(total, value * convert(kernel.let(weight, "weight"), view.kind))
        target.store(pixel, slice_, total)


_Tap = tuple[Expression, Expression, Expression]  # index, weight, whether it is inside


def _kernel_taps(
    kernel: Kernel, attributes: GridSample, coordinate: Expression, size: int
) -> list[_Tap]:
    """The same for one place, in a kernel."""
    factor, shift = attributes.scale(size)
    place = kernel.let(coordinate * factor + shift, "place")
    place = kernel.let(round_even(place), "place") if attributes.mode == "nearest" else place
    low, high = attributes.ends(size)
    if attributes.padding == "border":
        outside = (place < low) | (place > high)
        place = where(outside, minimum(maximum(place, 0.0), size - 1.0), place)
    elif attributes.padding == "reflection":
        place = _kernel_mirrored(kernel, place, low, high)
    # The order of operands makes a place of NaN one that is far outside.
    place = kernel.let(minimum(size + 2.0, maximum(-3.0, place)), "place")
    below = kernel.let(floor(place), "below")
    way, found = kernel.let(place - below, "way"), []
    for tap in TAPS[attributes.mode]:
        index, inside = below + float(tap), const(True)
        if attributes.padding == "reflection":
            index = _kernel_mirrored(kernel, kernel.let(index, "index"), low, high)
        whole = kernel.let(convert(index, "int"), "index")
        if attributes.padding == "zeros":
            inside = kernel.let((whole >= 0) & (whole < size), "inside")
        else:
            whole = kernel.let(minimum(maximum(whole, 0), size - 1), "index")
        weight = kernel.let(_weight(attributes.mode, tap, way), "weight")
        found.append((whole, weight, inside))
    return found


def _kernel_mirrored(kernel: Kernel, place: Expression, low: float, high: float) -> Expression:
    span = high - low
    if span == 0:
        return const(low, "float")
    way = kernel.let(remainder(absolute(place - low), 2 * span), "way")
    return kernel.let(where(way > span, 2 * span - way, way) + low, "place")


OP = Op(
    name="grid_sample",
    attributes=GridSample,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("sample", build),),
    cases=(
        # Coordinates reach further than from -1 to 1.
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
