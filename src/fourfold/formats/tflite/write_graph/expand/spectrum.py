"""Expansion of Fourier transforms: LiteRT's own for powers of two, else matrix products."""

from __future__ import annotations

import numpy as np

from fourfold.formats.tflite.write_graph.expansion import Expansion, expands
from fourfold.ops.pad import Pad
from fourfold.ops.rfft2d import Rfft2d
from fourfold.ops.slice import Slice
from fourfold.ops.spectrum import Spectrum

# length limit of a matrix transform, whose matrix has half its square of elements
_MAX_LENGTH = 4096


def is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


@expands("spectrum")
def spectrum(to: Expansion) -> bool:
    """rfft2d of one row and complex_abs, or the norm of two products."""
    size, result = to.attributes(Spectrum).size, to.types[to.node.outputs[0]]
    value = _fitted(to, to.input(0), size)
    if is_power_of_two(size) and size > 1:
        shape = to.type(value).shape
        row = to.reshaped(value, (*shape[:-1], 1, size))
        turned = to.add("rfft2d", row, attributes=Rfft2d((1, size)))
        return to.give_reshaped(to.add("complex_abs", turned), result.shape)
    if size > _MAX_LENGTH:
        return False
    angles = 2 * np.pi * np.outer(np.arange(size // 2 + 1), np.arange(size)) / size
    parts = [
        to.add(
            "square",
            to.add("fully_connected", value, to.constant(one.astype(np.float32), "waves"), None),
        )
        for one in (np.cos(angles), np.sin(angles))
    ]
    return to.give("sqrt", to.add("add", *parts))


def _fitted(to: Expansion, value: str, size: int) -> str:
    """Return the value cropped or zero-padded to `size` channels."""
    x = to.type(value)
    zeros, missing = (0,) * (x.rank - 1), size - x.channels
    if missing > 0:
        return to.add("pad", value, attributes=Pad((*zeros, 0), (*zeros, missing)))
    if missing < 0:
        box = Slice((*zeros, 0), (*x.shape[:-1], size), (1,) * x.rank)
        return to.add("slice", value, attributes=box)
    return value
