"""A copy of a convolution's input as bytes in slices, with what stands for zero around it."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import Expression, const, guarded, lift, load, vector
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.place import Layout, Place, Stored
from fourfold.kernel.site import Site
from fourfold.kernel.view import View
from fourfold.ops._dots import is_in_words, read_words
from fourfold.ops._padded import PaddedInput, Spot
from fourfold.types import DType


class PaddedBytes(PaddedInput):
    """The copy, for kernels that read the bytes of a slice as one word."""

    title = "pad_bytes"

    def _stored(self, source: Place) -> Stored:
        """Signed bytes become unsigned ones."""
        self.lowest = 128 if source.dtype is DType.I8 else 0
        return Stored(DType.U8, 1.0, source.zero_point + self.lowest)

    def view(self, site: Site, kernel: Kernel, writable: bool = False) -> View:
        by_words = is_in_words(site) or not writable
        dtype = DType.I32 if by_words else DType.U8
        pointer = kernel.pointer("dst" if writable else "src", dtype, self.scratch, writable)
        return View(kernel, pointer, self.type, self.place)

    def _source(self, kernel: Kernel) -> View:
        site = self.site
        return read_words(site, kernel) if is_in_words(site) else site.read(kernel, 0)

    def _copy(self, source: View, target: View, at: Spot, inside: Expression) -> None:
        kernel, (place, pixel, slice_) = source.kernel, at
        zero = self.stored.zero_point
        if is_in_words(self.site):
            word = load(source.pointer, source.index(place, slice_), "int")
            zeros = kernel.size("zeros", int(np.full(4, zero, np.uint8).view(np.int32)[0]))
            value = Expression("guarded", (inside, word, zeros), "int", 1)
        else:
            value = guarded(inside, self._lanes(source, place, slice_), zero)
        kernel.store(target.pointer, target.index(pixel, slice_), value)

    def _lanes(self, source: View, place: Expression, slice_: Expression) -> Expression:
        """Four channels, each read alone."""
        lanes: list[Expression] = []
        channels, sliced = source.type.channels, source.place.layout is Layout.SLICED
        for lane in range(4):
            index = source.corner(place) + source.step(0, slice_) + lane
            value = load(source.pointer, index, "int") + self.lowest
            if channels < 4 and not sliced:
                value = value if lane < channels else const(0)
            elif channels % 4 and not sliced:
                value = guarded(lift(slice_) * 4 + lane < source.channels, value)
            lanes.append(value)
        return vector(*lanes)
