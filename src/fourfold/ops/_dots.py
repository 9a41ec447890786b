"""The convolution of bytes: four products at once, summed up in whole numbers.

A slice of a pixel is four bytes, one word. It meets a vector of words, the four weights of each of
eight outputs, and every meeting adds eight sums of four products.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.kernel.expression import Expression, convert, load
from fourfold.kernel.kernel import Variable
from fourfold.kernel.place import Layout
from fourfold.kernel.site import Site
from fourfold.ops._convolve import Convolution, pack_bias
from fourfold.ops._tile import Tile
from fourfold.types import DType

LIMITS = np.iinfo(np.int8)


def refuses_dots(site: Site) -> str | None:
    """The device and the input must have bytes, the weights must be such."""
    if not site.device.dot_products:
        return "the device has no dot products of bytes"
    place, weights, bias = site.places[str(site.node.inputs[0])], site.array(1), site.array(2)
    if place.dtype is not DType.U8 or place.layout is not Layout.SLICED or place.scale != 1.0:
        return "the input is not kept as bytes"
    if weights is None or not _is_whole(weights) or not _is_whole(bias):
        return "weights or bias are no whole numbers"
    if weights.min() < LIMITS.min or weights.max() > LIMITS.max:
        return "a weight needs more than eight bits"
    return None


def _is_whole(array: np.ndarray | None) -> bool:
    return array is None or bool(np.array_equal(array, np.rint(array)))


def pack_words(weights: np.ndarray, tile: Tile) -> np.ndarray:
    """[O, taps, I] -> [group][tap][slice of four inputs][output], four inputs in a word."""
    outputs, taps, inputs = weights.shape
    block = tile.width * tile.groups
    padded = np.zeros((-(-outputs // block) * block, taps, -(-inputs // 4) * 4), np.int8)
    padded[:outputs, :, :inputs] = weights
    grouped = padded.reshape(-1, tile.width, taps, padded.shape[2] // 4, 4)
    return np.ascontiguousarray(grouped.transpose(0, 2, 3, 1, 4)).view(np.int32)


class DotConvolution(Convolution):
    """The same places, tiles and stores as of other convolutions, with sums of whole numbers."""

    def _pack(self, weights: np.ndarray) -> None:
        """What is stored is the number less the lowest, for which the bias makes up."""
        site, kernel, place = self.site, self.kernel, self.source.place
        self.kind = "int"
        words = replace(place, dtype=DType.I32, offset=place.offset // 4)
        self.words = kernel.pointer("words", DType.I32, words)
        self.weights = site.packed(kernel, "weights", pack_words(weights, self.tile))
        bias = pack_bias(site.array(2), weights.shape[0], self.tile).astype(np.int64)
        sums = weights.sum(axis=(1, 2), dtype=np.float64).astype(np.int64)
        bias[: weights.shape[0]] -= place.zero_point * sums
        self.bias = site.packed(kernel, "bias", bias.astype(np.int32))

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
        down = kernel.size("filter_rows", taps.count[0])
        across = kernel.size("filter_columns", taps.count[1])
        block = kernel.let(slices * down * across, "block")
        starts = [kernel.let((group + column) * block, "w") for column in range(tile.groups)]
        corners = [kernel.let(convert(base[-1], "long"), "corner") for base in bases]
        with kernel.loop(down, title="row") as row, kernel.loop(across, title="column") as column:
            offset = kernel.let(taps.offset(row, column), "offset")
            tap = kernel.let((row * across + column) * slices, "tap")
            with kernel.loop(slices, title="slice") as slice_:
                at = kernel.let(tap + slice_, "k")
                step = slice_ * self.source.pitch + offset
                near = kernel.shifted(self.words, step, 1, "near")
                rows = [kernel.shifted(self.weights, s + at, tile.width, "row") for s in starts]
                factors = [kernel.let(load(one, 0, "int", tile.width), "f") for one in rows]
                for line, corner in zip(sums, corners, strict=True):
                    word = kernel.let(load(near, corner, "int"), "a")
                    for total, factor in zip(line, factors, strict=True):
                        kernel.call("add_dots", total, word, factor)

    def _store(
        self, sums: list[list[Variable]], pixels: list[Expression], group: Expression
    ) -> None:
        kernel = self.kernel
        real = [
            [kernel.variable(convert(total, kernel.real), "real") for total in line]
            for line in sums
        ]
        super()._store(real, pixels, group)
