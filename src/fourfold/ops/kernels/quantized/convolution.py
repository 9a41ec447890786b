"""The convolution of bytes: dot products of four bytes with integer sums.

A slice of a pixel is four bytes, one word. It is multiplied by a vector of words, which holds four
weights of each of eight outputs, and the products are added to eight sums.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.codegen.byte_io import RUN, store_block, store_four
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, convert, load, minimum, vector, widen
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.location import Layout, Location
from fourfold.codegen.statement import DotAccumulate
from fourfold.codegen.view import View
from fourfold.ops.kernels.conv.taps import MakeTaps
from fourfold.ops.kernels.conv.tile import ConvTile, Work, choose_tile
from fourfold.ops.kernels.conv.tiled import Convolution, Source, pack_bias, work_of
from fourfold.plan.layout import Arranged, ArrayLayout
from fourfold.types import DType

BYTE_VALUES = 256
MAX_UNROLLED_TAPS = 5
BLOCK = 8  # outputs per vector of sums
MAX_OUTPUT_GROUPS = 3  # groups of eight outputs: twelve sums in sixteen registers


def refuses_dots(context: NodeContext) -> str | None:
    """Return why dot products of bytes cannot be used, or None."""
    if not context.device.dot_products:
        return "the device has no byte dot products"
    capabilities = context.capabilities
    if not (
        capabilities.shifted_pointers
        and capabilities.private_arrays
        and "long" in capabilities.kinds
    ):
        return f"{capabilities.language} lacks shifted pointers, private arrays or 64-bit integers"
    location, weights, bias = (
        context.locations[str(context.node.inputs[0])],
        context.array(1),
        context.array(2),
    )
    if location.dtype not in (DType.U8, DType.I8) or location.scale != 1.0:
        return "the input is not stored as bytes"
    if weights is None or not _is_whole(weights) or not _is_whole(bias):
        return "the weights or the bias are not integers"
    if weights.max() - weights.min() >= BYTE_VALUES:
        return "the weights need more than eight bits"
    return None


def _is_whole(array: np.ndarray | None) -> bool:
    return array is None or bool(np.array_equal(array, np.rint(array)))


def is_in_words(context: NodeContext) -> bool:
    """Return True if the input's memory layout suits dot products."""
    return _sliced(context) is not None


def _sliced(context: NodeContext) -> Location | None:
    """Return the location of the input if it is bytes in slices; one pixel may be a row of them."""
    location = context.locations[str(context.node.inputs[0])]
    if location.dtype is not DType.U8 or location.layout is Layout.SLICED:
        return location if location.dtype is DType.U8 else None
    alone = (
        context.input.pixels == 1 and context.input.channels % 4 == 0 and location.offset % 4 == 0
    )
    return replace(location, layout=Layout.SLICED, pitch=1) if alone else None


def read_words(context: NodeContext, kernel: Kernel) -> View:
    """Return a view of the input with one word for each slice of a pixel."""
    location = _sliced(context)
    assert location is not None
    words = replace(location, dtype=DType.I32, offset=location.offset // 4)
    return View(kernel, kernel.pointer("src", DType.I32, words), context.input, location)


def repeat_byte(byte: int) -> int:
    """Return a word that holds the same byte four times."""
    return int(np.full(4, byte, np.uint8).view(np.int32)[0])


def weight_offset(weights: np.ndarray) -> int:
    """Return the number to subtract from all weights so that signed bytes can hold them."""
    low, high = int(weights.min()), int(weights.max())
    return 0 if low >= -128 and high <= 127 else low + 128


def unrolled_taps(columns: int) -> int:
    """Return how many taps of a row are unrolled."""
    return columns if columns <= MAX_UNROLLED_TAPS else 1


def pack_words(weights: np.ndarray, tile: ConvTile, once: int) -> Arranged:
    """Pack [O, taps, I] as [group][some taps][slice of four inputs][tap][output], in words.

    A word holds four inputs.
    """
    outputs, taps, inputs = weights.shape
    groups = -(-outputs // (tile.width * tile.groups)) * tile.groups
    factors = ((groups, tile.width), (taps // once, once), (-(-inputs // 4), 4))
    layout = ArrayLayout(weights.shape, factors, (0, 2, 4, 3, 1, 5))
    return Arranged(Arranged.of(weights.astype(np.int8), layout).array.view(np.int32), layout)


def pack_ones(inputs: int) -> np.ndarray:
    """Return a one for every input that exists, four in a word."""
    padded = np.zeros(-(-inputs // 4) * 4, np.int8)
    padded[:inputs] = 1
    return padded.view(np.int32)


def dot_tile(context: NodeContext, work: Work) -> ConvTile:
    """Return a tile of four pixels and as many groups of eight outputs as divide them best."""
    if work.pixels < RUN or not context.device.packs_bytes:
        return choose_tile(context.target, work, None)
    pairs = -(-work.slices // 2)
    if pairs == 1:
        return ConvTile(2 * RUN if work.pixels >= 2 * RUN else RUN, 1, 8)
    groups = min(range(MAX_OUTPUT_GROUPS, 1, -1), key=lambda count: -(-pairs // count) * count)
    return ConvTile(RUN, groups, 8)


class DotConvolution(Convolution):
    """A tiled convolution with integer sums of byte products."""

    def __init__(
        self,
        context: NodeContext,
        title: str,
        weights: np.ndarray,
        taps: MakeTaps,
        source: Source = read_words,
    ) -> None:
        self.middle = weight_offset(weights)
        work = work_of(context, weights.shape[1])
        tile = choose_tile(context.target, work, context.choice or str(dot_tile(context, work)))
        self.counted = context.counts_bytes and tile.pixels % RUN == 0
        super().__init__(context, title, weights, taps, source, tile, self.counted)

    def _pack(self, weights: np.ndarray) -> None:
        """Pack the weights less `middle`, and a bias corrected for the zero point."""
        context, kernel, location = self.context, self.kernel, self.source.location
        self.kind = "int"
        words = pack_words(weights - self.middle, self.tile, unrolled_taps(self.taps.count[1]))
        self.weights = context.packed(kernel, "weights", words)
        bias = pack_bias(context.array(2), weights.shape[0], self.tile).astype(np.int64)
        sums = weights.sum(axis=(1, 2), dtype=np.float64).astype(np.int64)
        bias[: weights.shape[0]] -= location.zero_point * sums
        self.bias = context.packed(kernel, "bias", bias.astype(np.int32))
        if self.middle:
            self.ones = context.packed(kernel, "ones", pack_ones(weights.shape[2]))

    def _tile_pixels(self) -> tuple[list[Expression], Expression]:
        """Return pixels and group; with a window, tiles stay within a row.

        All pixels of such a tile share one coordinate computation.
        """
        kernel, tile, total = self.kernel, self.tile, self.context.output
        within = self.counted and total.shape[-2] >= tile.pixels
        if self.taps.neighbours or not within:
            return super()._tile_pixels()
        width = total.shape[-2]
        self.count = -(-width // tile.pixels)
        groups = -(-total.channels // (tile.width * tile.groups))
        self.number, y, line = kernel.ids(self.count, groups, total.pixels // width)
        column = self.number * tile.pixels
        if width % tile.pixels:
            column = minimum(column, kernel.size("last_column", width - tile.pixels))
        column = kernel.let(column, "column")
        above = self.target.line_coordinates(line)
        start = kernel.let(line * self.target.axis(total.rank - 2) + column, "pixel")
        pixels = [start + step for step in range(tile.pixels)]
        for step, pixel in enumerate(pixels):
            self.target.known[pixel] = [*above, column + step]
        return pixels, kernel.let(y * tile.groups, "group")

    def _accumulate(
        self,
        sums: list[list[Variable]],
        bases: list[tuple[Expression, ...]],
        group: Expression,
        checked: bool,
    ) -> None:
        kernel, taps, tile, slices = self.kernel, self.taps, self.tile, self.source.slices
        assert taps.offset is not None
        assert not checked
        once = unrolled_taps(taps.count[1])
        down = kernel.size("filter_rows", taps.count[0])
        across = kernel.size("filter_columns", taps.count[1] // once)
        block = kernel.let(slices * down * across * once, "block")
        starts = [kernel.let((group + column) * block, "w") for column in range(tile.groups)]
        corners = self._corners(bases)
        totals = ByteTotals(kernel, tile.pixels) if self.middle else None
        lane = kernel.local_id(2) if tile.split > 1 else const(0)
        with kernel.loop(down, title="row") as row, kernel.loop(across, title="column") as column:
            offset = kernel.let(taps.offset(row, column * once), "offset")
            tap = kernel.let((row * across + column) * slices, "tap")
            with kernel.loop(slices, lane, tile.split, title="slice") as slice_:
                at = kernel.let((tap + slice_) * once, "k")
                step = kernel.let(slice_ * self.source.pitch + offset, "step")
                for part in range(once):
                    near = step + taps.offset(const(0), const(part))
                    words = self._words(near, corners)
                    self._multiply_words(sums, words, [start + (at + part) for start in starts])
                    if totals is not None:
                        totals.add(words, load(self.ones, slice_, "int"))
        if totals is not None:
            totals.spread(sums, kernel.size("middle", self.middle))

    def _words(self, step: Expression, corners: list[Expression]) -> list[Expression]:
        kernel = self.kernel
        near = kernel.shifted(self.source.pointer, step, 1, "near")
        return [kernel.let(load(near, corner, "int"), "a") for corner in corners]

    def _multiply_words(
        self, sums: list[list[Variable]], words: list[Expression], starts: list[Expression]
    ) -> None:
        kernel, width = self.kernel, self.tile.width
        rows = [kernel.shifted(self.weights, start, width, "row") for start in starts]
        factors = [kernel.let(load(one, 0, "int", width), "f") for one in rows]
        for line, word in zip(sums, words, strict=True):
            for total, factor in zip(line, factors, strict=True):
                kernel.emit(DotAccumulate(total, widen(word, width), factor))

    def _corners(self, bases: list[tuple[Expression, ...]]) -> list[Expression]:
        """Return where each pixel's window starts.

        Neighbors are a constant step apart, unless work-items interleave their pixels.
        """
        first = self.kernel.let(convert(bases[0][-1], "long"), "corner")
        if self.taps.neighbours and self.tile.local[0] == 1:
            return [first + number for number in range(len(bases))]
        others = [convert(base[-1], "long") for base in bases[1:]]
        return [first, *(self.kernel.let(start, "corner") for start in others)]

    def _store(
        self, sums: list[list[Variable]], pixels: list[Expression], group: Expression
    ) -> None:
        kernel = self.kernel
        real = [
            [kernel.variable(convert(total, kernel.real), "real") for total in line]
            for line in sums
        ]
        if self._makes_blocks():
            self._store_blocks(real, pixels, group)
        else:
            super()._store(real, pixels, group)

    def _makes_blocks(self) -> bool:
        """Return True if each group is two whole slices and no tail input varies by pixel."""
        context, rounding, tile = self.context, self.target.counting, self.tile
        if not self.counted or rounding is None or rounding.zero is None or tile.split > 1:
            return False
        extras = (name for step in context.tail for name in step.inputs if name is not None)
        alike = all(context.types[name].pixels == 1 for name in extras)
        return (
            tile.width == BLOCK and context.output.channels % (BLOCK * tile.groups) == 0 and alike
        )

    def _store_blocks(
        self, values: list[list[Variable]], pixels: list[Expression], group: Expression
    ) -> None:
        for column in range(self.tile.groups):
            slice_ = self.kernel.let((group + column) * 2, "slice")
            for first in range(0, len(pixels), RUN):
                block = [line[column] for line in values[first : first + RUN]]
                store_block(self.target, pixels[first], slice_, block)

    def _store_pixels(
        self, values: list[Expression], pixels: list[Expression], slice_: Expression
    ) -> None:
        if not self.counted:
            super()._store_pixels(values, pixels, slice_)
            return
        with self.kernel.run_of(pixels[0], slice_):
            for first in range(0, len(values), RUN):
                a, b, c, d = values[first : first + RUN]
                store_four(self.target, pixels[first], slice_, vector(a, b), vector(c, d))


class ByteTotals:
    """The sum of all bytes under each pixel's window, four pixels per vector."""

    def __init__(self, kernel: Kernel, pixels: int) -> None:
        self.kernel = kernel
        count = -(-pixels // RUN)
        self.sums = [kernel.variable(const(0, "int", RUN), "total")]
        self.sums += [kernel.variable(self.sums[0], "total") for _ in range(count - 1)]

    def add(self, words: list[Expression], ones: Expression) -> None:
        for number, total in enumerate(self.sums):
            group = words[RUN * number : RUN * number + RUN]
            group += [group[-1]] * (RUN - len(group))
            self.kernel.emit(DotAccumulate(total, vector(*group), widen(ones, RUN)))

    def spread(self, sums: list[list[Variable]], factor: Expression) -> None:
        """Add `factor` times the total of each pixel: weights are `factor` more than their
        bytes.
        """
        for number, line in enumerate(sums):
            every, lane = self.sums[number // RUN], number % RUN
            more = self.kernel.let(every.lane(lane) * factor, "more")
            for total in line:
                self.kernel.add(total, widen(more, total.width))
