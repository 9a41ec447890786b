"""Input reads of a convolution: where the pixels under a filter are, and how channels are
loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fourfold.codegen.context import Target
from fourfold.codegen.expression import Expression, const, convert, where
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout
from fourfold.codegen.view import View
from fourfold.ops.base.window import NO_PADDING, Window

Base = tuple[Expression, ...]
TapLocation = tuple[Expression, Expression | None]


@dataclass(frozen=True)
class Taps:
    """Finds the input pixels under the filter for one output pixel.

    `count` is the number of taps down and across. `start(pixel)` prepares a base once for each
    output pixel. `find(base, row, column)` returns the input pixel of a tap and whether it exists
    (None: always). `offset(row, column)` is the distance from the last element of the base to a tap
    that exists. `interior(base)` is true if all taps exist (None: always).
    """

    count: tuple[int, int]
    start: Callable[[Expression], tuple[Expression, ...]]
    find: Callable[
        [tuple[Expression, ...], Expression, Expression], tuple[Expression, Expression | None]
    ]
    interior: Callable[[tuple[Expression, ...]], Expression] | None = None
    offset: Callable[[Expression, Expression], Expression] | None = None
    neighbours: bool = False  # neighboring outputs read neighboring inputs

    @property
    def always(self) -> bool:
        """True if every tap exists for every output pixel."""
        return self.offset is not None and self.interior is None


MakeTaps = Callable[[Kernel, View, View], Taps]


def plain_taps(kernel: Kernel, source: View, target: View) -> Taps:
    """Return the single tap of a 1x1 filter: the input pixel with the same number."""
    return Taps(
        (1, 1),
        start=lambda pixel: (pixel,),
        find=lambda base, row, column: (base[0], None),
        offset=lambda row, column: const(0),
        neighbours=True,
    )


def window_taps(window: Window) -> MakeTaps:
    """Return the taps of a window that slides over [N,H,W,C].

    input row = output row * stride - before + tap * dilation
    """
    return lambda kernel, source, target: _window_taps(window, kernel, source, target)


def _window_taps(window: Window, kernel: Kernel, source: View, target: View) -> Taps:
    filter, stride, dilation, padding = (
        window.filter,
        window.stride,
        window.dilation,
        window.padding,
    )
    before = (padding.top, padding.left)
    padded = padding != NO_PADDING
    height, width = source.axis(1), source.axis(2)
    # Steps are small and take few values; as literals they give better code than as parameters.
    steps, gaps, offsets = stride, dilation, before
    reach = [kernel.size(f"reach{a}", (filter[a] - 1) * dilation[a]) for a in (0, 1)]

    def start(pixel: Expression) -> tuple[Expression, ...]:
        image, row, column = target.coordinates(pixel)
        top = kernel.let(row * steps[0] - offsets[0], "top")
        left = kernel.let(column * steps[1] - offsets[1], "left")
        return top, left, kernel.let((image * height + top) * width + left, "corner")

    def offset(row: Expression, column: Expression) -> Expression:
        return row * gaps[0] * width + column * gaps[1]

    def find(
        base: tuple[Expression, ...], row: Expression, column: Expression
    ) -> tuple[Expression, Expression | None]:
        source_pixel = base[-1] + offset(row, column)
        if not padded:
            return source_pixel, None
        y, x = base[0] + row * gaps[0], base[1] + column * gaps[1]
        return source_pixel, (y >= 0) & (y < height) & (x >= 0) & (x < width)

    def interior(base: tuple[Expression, ...]) -> Expression:
        rows = (base[0] >= 0) & (base[0] + reach[0] < height)
        return rows & (base[1] >= 0) & (base[1] + reach[1] < width)

    return Taps(filter, start, find, interior if padded else None, offset)


class Reader:
    """Reads the pixels of a tile, one filter tap after the other."""

    def __init__(self, source: View, taps: Taps, target: Target) -> None:
        self.kernel, self.source, self.taps = source.kernel, source, taps
        self.on_cpu, capabilities = target.device.is_cpu, target.capabilities
        self._alone = self.on_cpu and (source.whole or source.type.channels < 4)
        self._in_vain = target.emulated
        self._from_corners = (
            self._alone and capabilities.shifted_pointers and "long" in capabilities.kinds
        )

    def corners(self, bases: list[Base], checked: bool) -> list[Expression]:
        """Return where each pixel's window starts, in elements; empty if not applicable.

        The corners do not change while the taps advance.
        """
        if not self._from_corners or checked or self.taps.offset is None:
            return []
        kernel, source = self.kernel, self.source
        if self.taps.neighbours and source.location.layout is Layout.SLICED:
            first = kernel.let(convert(source.corner(bases[0][-1]), "long"), "corner")
            return [first + 4 * number for number in range(len(bases))]
        starts = [convert(source.corner(base[-1]), "long") for base in bases]
        return [kernel.let(corner_start, "corner") for corner_start in starts]

    def tap_locations(
        self, bases: list[Base], corners: list[Expression], row: Expression, column: Expression
    ) -> list[TapLocation]:
        """Return the pixels under one tap and whether they exist.

        With corners, return each corner and the offset of the tap from it.
        """
        if corners:
            assert self.taps.offset is not None
            offset = self.kernel.let(self.taps.offset(row, column), "offset")
            return [(corner, offset) for corner in corners]
        return [self._find(base, row, column) for base in bases]

    def _find(self, base: Base, row: Expression, column: Expression) -> TapLocation:
        kernel = self.kernel
        pixel, inside = self.taps.find(base, row, column)
        if inside is None:
            return kernel.let(pixel, "from"), None
        inside = kernel.let(inside, "inside")
        if self.on_cpu or self._in_vain:
            pixel = where(inside, pixel, 0)
        return kernel.let(pixel, "from"), inside

    def pixels(
        self, places: list[TapLocation], slice_: Expression, from_corners: bool
    ) -> list[Callable[[int], Expression]]:
        """Return a function per input pixel that loads a channel.

        A CPU loads channels one by one, a GPU four at once.
        """
        source = self.source
        if from_corners:
            offset = places[0][1]
            assert offset is not None
            step = source.step(offset, slice_)
            near = self.kernel.shifted(source.pointer, step, 1, "near")
            return [partial(source.lane_near, near, corner) for corner, _ in places]
        if not self._alone:
            return [self._four(pixel, inside, slice_).lane for pixel, inside in places]
        return [partial(self._lane_inside, pixel, inside, slice_) for pixel, inside in places]

    def _four(self, pixel: Expression, inside: Expression | None, slice_: Expression) -> Expression:
        """Load four channels, or zeros.

        A CPU that emulates a GPU runs work-items in lockstep. Branches are slower there than unused
        reads, and take its compiler many times as long.
        """
        if inside is None or not self._in_vain:
            return self.source.load(pixel, slice_, inside)
        value = self.source.load(pixel, slice_)
        return self.kernel.let(where(inside, value, 0), "v")

    def _lane_inside(
        self, pixel: Expression, inside: Expression | None, slice_: Expression, lane: int
    ) -> Expression:
        value = self.source.lane(pixel, slice_, lane)
        return value if inside is None else where(inside, value, 0)
