"""What matrix units are fed with: for a pixel and a slice, four halves in two 32-bit words.

A work-item of a warp owns every fourth slice of a step. Where it gets the numbers from is up to a
feed: from memory as they lie there, from memory one filter tap beside the other, or from a
depthwise filter that is applied on the way (`_matrix_filter`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fourfold.kernel.context import SMALL_WEIGHTS, NodeContext
from fourfold.kernel.expression import (
    Expression,
    const,
    maximum,
    minimum,
    where,
)
from fourfold.kernel.intrinsics import load_words, pack_halves, unpack_halves
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.location import Layout
from fourfold.kernel.view import View
from fourfold.kernels.conv.taps import Base, Found, MakeTaps, Taps
from fourfold.kernels.matrix.rows import InOrder, Rows
from fourfold.kernels.matrix.tile import MatrixWork
from fourfold.types import LARGEST_HALF, DType


class Feed(Protocol):
    """Reads the inputs of the products."""

    work: MatrixWork
    rows: Rows

    def start(self, kernel: Kernel, target: View) -> None:
        """Make ready in a kernel whose parameters are still open."""

    def aim(self, pixels: list[Expression], lane: Expression) -> None:
        """Find what these pixels of the result need, before the steps begin."""

    def constants(self, step: Expression, quarter: Expression) -> list[Expression]:
        """The constants that one step reads, beside the weights of the products."""

    def inputs(self, step: Expression, quarter: Expression) -> list[Expression]:
        """All else that one step reads."""

    def combine(
        self, constants: list[Expression], inputs: list[Expression]
    ) -> list[list[Expression]]:
        """The halves of every pixel, from what was read for a step; and what halves leave over of
        each, where that counts.
        """


def weight_parts(context: NodeContext, number: int) -> int:
    """In how many parts weights are multiplied: in two where floats are kept, and they are few, and
    no halves already, as those of many files are.
    """
    array = context.array(number)
    if array is None or not context.options.keeps_values or array.size > SMALL_WEIGHTS:
        return 1
    return 1 if np.array_equal(array, array.astype(np.float16)) else 2


def in_halves(kernel: Kernel, value: Expression) -> list[Expression]:
    """Four floats as halves, and what these leave over: together almost as good as floats."""
    near = maximum(minimum(value, LARGEST_HALF), -LARGEST_HALF)
    first = kernel.let(pack_halves(near), "a")
    return [first, kernel.let(pack_halves(value - unpack_halves(first)), "rest")]


def four_floats(source: View, found: Found, slice_: Expression) -> Expression:
    """Four channels of a pixel, zeros where it does not exist."""
    place, inside = found
    kernel = source.kernel
    if inside is None:
        return kernel.let(source.load(place, slice_), "x")
    value = kernel.let(source.load(where(inside, place, 0), slice_), "x")
    return kernel.let(where(inside, value, 0.0), "x")


def four_halves(source: View, found: Found, slice_: Expression) -> Expression:
    """Four channels of a pixel as halves, zeros where it does not exist.

    No branch asks whether it does: every read would wait for the one before.
    """
    place, inside = found
    kernel = source.kernel
    if source.location.dtype is DType.F16 and source.location.layout is Layout.SLICED:
        index = source.index(place, slice_)
        return kernel.let(load_words(source.pointer, index, inside), "a")
    if inside is not None:
        place = where(inside, place, 0)
    value = kernel.let(pack_halves(source.load(place, slice_)), "a")
    return value if inside is None else kernel.let(where(inside, value, 0), "a")


class WindowFeed:
    """Pixels under a window: all slices of a tap, then those of the next one.

    Where the channels of a tap do not fill whole steps, a step has slices of several taps. Values
    that are kept as floats are multiplied in two parts, since matrix units take halves.
    """

    def __init__(self, context: NodeContext, taps: MakeTaps, count: int) -> None:
        self.context, self.make_taps, self.count = context, taps, count
        self.pairs = count * context.input.slices
        self.whole = context.input.slices % 4 == 0
        self.wide = context.options.keeps_values
        pixels, channels = context.output.pixels, context.output.channels
        steps, sums = _steps(self.pairs, self.whole), min(count, 4)
        fine = weight_parts(context, 1) > 1
        self.work = MatrixWork(pixels, channels, steps, sums=sums, wide=self.wide, fine=fine)
        self.rows: Rows = InOrder(pixels)

    def start(self, kernel: Kernel, target: View) -> None:
        self.kernel, self.source = kernel, self.context.read(kernel, 0)
        self.source.fixed = True
        self.taps: Taps = self.make_taps(kernel, self.source, target)

    def aim(self, pixels: list[Expression], lane: Expression) -> None:
        self.bases = [base_of(self.kernel, self.taps, pixel) for pixel in pixels]

    def constants(self, step: Expression, quarter: Expression) -> list[Expression]:
        return []

    def inputs(self, step: Expression, quarter: Expression) -> list[Expression]:
        kernel, taps = self.kernel, self.taps
        tap, slice_, exists = self._tap(step, quarter)
        row = kernel.let(tap // taps.count[1], "row")
        column = kernel.let(tap - row * taps.count[1], "column")
        values = []
        for base in self.bases:
            place, inside = taps.find(base, row, column)
            if exists is not None:
                inside = exists if inside is None else exists & inside
            found = named(kernel, (place, inside))
            read = four_floats if self.wide else four_halves
            values.append(read(self.source, found, slice_))
        return values

    def combine(
        self, constants: list[Expression], inputs: list[Expression]
    ) -> list[list[Expression]]:
        if not self.wide:
            return [inputs]
        both = [in_halves(self.kernel, value) for value in inputs]
        return [[halves[part] for halves in both] for part in (0, 1)]

    def _tap(
        self, step: Expression, quarter: Expression
    ) -> tuple[Expression, Expression, Expression | None]:
        """The tap and the slice that a work-item reads in a step; None: they always exist.

        What it divides by is written out: a number that is not known takes as long as a read.
        """
        kernel, slices = self.kernel, self.context.input.slices
        if self.whole and self.count == 1:
            return const(0), kernel.let(step * 4 + quarter, "slice"), None
        if self.whole:
            steps = slices // 4
            tap = kernel.let(step // steps, "tap")
            return tap, kernel.let((step - tap * steps) * 4 + quarter, "slice"), None
        pair = kernel.let(step * 4 + quarter, "pair")
        exists = kernel.let(pair < self.pairs, "exists")
        tap = kernel.let(minimum(pair // slices, self.count - 1), "tap")
        return tap, kernel.let(pair - pair // slices * slices, "slice"), exists


def _steps(pairs: int, whole: bool) -> int:
    """Steps of four slices; where they are not whole, as many as can be read four ahead."""
    return pairs // 4 if whole else -(-pairs // 16) * 4


def flatten_taps(weights: np.ndarray) -> np.ndarray:
    """[O, taps, I] -> [O, inputs]: slices of four, tap after tap, in the order of the feed."""
    outputs, taps, inputs = weights.shape
    slices = -(-inputs // 4)
    padded = np.zeros((outputs, taps, slices * 4), weights.dtype)
    padded[:, :, :inputs] = weights
    flat = np.zeros((outputs, _steps(taps * slices, slices % 4 == 0) * 16), weights.dtype)
    flat[:, : taps * slices * 4] = padded.reshape(outputs, -1)
    return flat


def clamped(low: float, high: float) -> Callable[[Expression], Expression]:
    """A function that keeps values between two numbers, either of which may be infinite."""

    def clamp(value: Expression) -> Expression:
        value = value if low == -np.inf else maximum(value, low)
        return value if high == np.inf else minimum(value, high)

    return clamp


def base_of(kernel: Kernel, taps: Taps, pixel: Expression) -> Base:
    return tuple(kernel.let(part, "base") for part in taps.start(pixel))


def named(kernel: Kernel, found: Found) -> Found:
    place, inside = found
    return kernel.let(place, "from"), None if inside is None else kernel.let(inside, "inside")
