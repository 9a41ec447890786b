"""Memory locations of values: buffer, offset and layout."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from fourfold.plan.layout import Arranged, ArrayLayout
from fourfold.types import DType, TensorType


class Layout(Enum):
    """Order of a tensor's elements in memory.

    ROWS: NumPy's order; the channels of a pixel are adjacent. SLICED: channels in slices of four;
    each slice holds all pixels, four values per pixel.
    """

    ROWS = "rows"
    SLICED = "sliced"


class Channel(NamedTuple):
    """A channel of an image: its byte in a pixel, and its value as (byte - zero) * scale."""

    byte: int
    zero: float
    scale: float


@dataclass(frozen=True)
class Location:
    """The memory of a value. `root` owns it; `offset` counts elements from the start of the root.

    `pitch` is the stride of the outer dimension: in ROWS, elements from one pixel to the next; in
    SLICED, pixels from one slice to the next. A value inside another one has the other's pitch.
    With a `scale`, the elements are quantized integers. With `channels`, they are bytes of pixels,
    of which fewer than four channels are read as real numbers. With a `plane`, channels are `plane`
    elements apart, each with its pixels adjacent; several images of such planes are `image`
    elements apart.
    """

    root: str
    layout: Layout
    dtype: DType
    pitch: int
    offset: int = 0
    scale: float | None = None
    zero_point: int = 0
    channels: tuple[Channel, ...] = ()
    plane: int = 0
    image: int = 0

    @property
    def converts(self) -> bool:
        """True if reads convert the stored elements."""
        return self.scale is not None or bool(self.channels)

    @property
    def aligned(self) -> bool:
        """True if four neighbouring channels may be read at once."""
        return self.layout is Layout.SLICED or (self.pitch % 4 == 0 and self.offset % 4 == 0)


def dequantized_location(location: Location, scale: float, zero_point: int) -> Location | None:
    """Return the same memory read as dequantized numbers; None if reads already convert it.

    Bytes with scale 1 are read as integers and can be given another scale.
    """
    if location.scale not in (None, 1.0) or location.channels:
        return None
    return replace(location, scale=scale, zero_point=location.zero_point + zero_point)


def picture_location(location: Location, channels: tuple[Channel, ...]) -> Location | None:
    """Return the same bytes read as the channels of an image; None if they are not plain bytes."""
    plain = location.dtype is DType.U8 and location.layout is Layout.ROWS and not location.converts
    return replace(location, channels=channels) if plain and not location.plane else None


def planes_location(location: Location, planes: TensorType) -> Location | None:
    """Return memory of [images, channels, ...] as pixels; None if it is not contiguous."""
    if location.layout is not Layout.ROWS or location.channels or location.plane:
        return None
    if location.pitch != planes.shape[-1]:
        return None
    images, channels, *sizes = planes.shape
    plane = math.prod(sizes)
    return replace(location, pitch=1, plane=plane, image=channels * plane if images > 1 else 0)


@dataclass(frozen=True)
class Stored:
    """Storage of a value: the dtype and, if it is quantized, scale and zero point."""

    dtype: DType
    scale: float | None = None
    zero_point: int = 0

    def __repr__(self) -> str:
        steps = "" if self.scale is None else f" steps of {self.scale} from {self.zero_point}"
        return f"{self.dtype.value}{steps}"


def own_location(root: str, layout: Layout, type_: TensorType, stored: Stored) -> Location:
    """Return the location of a value that has memory of its own."""
    pitch = type_.channels if layout is Layout.ROWS else type_.pixels
    return Location(root, layout, stored.dtype, pitch, 0, stored.scale, stored.zero_point)


def storage_elements(layout: Layout, type_: TensorType) -> int:
    """Return how many elements a value occupies, including padding."""
    return type_.elements if layout is Layout.ROWS else type_.pixels * type_.slices * 4


def slice_channels(array: np.ndarray) -> Arranged:
    """Return the SLICED form [slice][pixel][4] of an array, padded with zeros."""
    channels = array.shape[-1] if array.ndim else 1
    rows = array.reshape(math.prod(array.shape[:-1]), channels)
    layout = ArrayLayout(rows.shape, ((rows.shape[0],), (-(-channels // 4), 4)), (1, 0, 2))
    return Arranged.of(rows, layout)


def region_location(
    location: Location, outer: TensorType, inner: TensorType, axis: int, start: int
) -> Location | None:
    """Return the location of the box `inner` at `start` along `axis`; None if it is not a view."""
    last = axis == outer.rank - 1
    if (last and location.channels) or (location.image and not last):
        return None
    if location.layout is Layout.ROWS:
        step = (
            location.plane or 1 if last else math.prod(outer.shape[axis + 1 : -1]) * location.pitch
        )
    elif last:
        includes_last = start + inner.channels == outer.channels
        if start % 4 or (inner.channels % 4 and not includes_last):
            return None
        step = location.pitch
    else:
        step = math.prod(outer.shape[axis + 1 : -1]) * 4
    if not last and math.prod(outer.shape[:axis]) != 1:
        return None
    return replace(location, offset=location.offset + start * step)


def reshaped_location(location: Location, before: TensorType, after: TensorType) -> Location | None:
    """Return the location of the elements under another shape; None if they must be moved."""
    if before.channels == after.channels:
        return location
    if location.channels or location.plane:
        return None
    if location.layout is Layout.ROWS and location.pitch == before.channels:
        return replace(location, pitch=after.channels)
    return None
