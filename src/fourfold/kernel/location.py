"""Where a value lives: which memory, at which offset, in which layout."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from fourfold.types import DType, TensorType


class Layout(Enum):
    """How the elements of a tensor lie in memory.

    ROWS: as NumPy has them, the channels of a pixel side by side.
    SLICED: the channels cut into slices of four; each slice holds all pixels, four values a pixel.
    """

    ROWS = "rows"
    SLICED = "sliced"


class Channel(NamedTuple):
    """A channel of a picture: which of a pixel's bytes holds it, and (byte - zero) * scale."""

    byte: int
    zero: float
    scale: float


@dataclass(frozen=True)
class Location:
    """A value's memory. `root` owns it; `offset` counts elements from the root's start.

    `pitch` is the distance between neighbours of the outer direction: in ROWS elements from one
    pixel to
    the next, in SLICED pixels from one slice to the next. A value inside another one has the
    other's pitch. With a `scale` there are integers, which stand for real numbers; with `channels`
    there are bytes of pixels, fewer than four channels of which are read as real numbers. With a
    `plane`, channels lie so many elements apart, each with its pixels side by side; several images
    of such planes lie `image` elements apart.
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
        """Whether what is read is not what lies there."""
        return self.scale is not None or bool(self.channels)

    @property
    def aligned(self) -> bool:
        """Whether four neighbouring channels may be read at once."""
        return self.layout is Layout.SLICED or (self.pitch % 4 == 0 and self.offset % 4 == 0)


def dequantized_location(place: Location, scale: float, zero_point: int) -> Location | None:
    """The same memory, read as real numbers; None if what lies there is read as such already.

    Bytes that count steps of one are read as whole numbers, and can be read as other steps, too.
    """
    if place.scale not in (None, 1.0) or place.channels:
        return None
    return replace(place, scale=scale, zero_point=place.zero_point + zero_point)


def picture_location(place: Location, channels: tuple[Channel, ...]) -> Location | None:
    """The same bytes, read as the channels of a picture; None if they are no plain bytes."""
    plain = place.dtype is DType.U8 and place.layout is Layout.ROWS and not place.converts
    return replace(place, channels=channels) if plain and not place.plane else None


def planes_location(place: Location, planes: TensorType) -> Location | None:
    """The memory of [images, channels, ...], seen as pixels with their channels; None if it is not
    all in one piece.
    """
    if place.layout is not Layout.ROWS or place.channels or place.plane:
        return None
    if place.pitch != planes.shape[-1]:
        return None
    images, channels, *sizes = planes.shape
    plane = math.prod(sizes)
    return replace(place, pitch=1, plane=plane, image=channels * plane if images > 1 else 0)


@dataclass(frozen=True)
class Stored:
    """What is kept of a value: the type, and where it counts steps, their size and their zero."""

    dtype: DType
    scale: float | None = None
    zero_point: int = 0

    def __repr__(self) -> str:
        steps = "" if self.scale is None else f" steps of {self.scale} from {self.zero_point}"
        return f"{self.dtype.value}{steps}"


def own_location(root: str, layout: Layout, type_: TensorType, stored: Stored) -> Location:
    """The place of a value that shares its memory with nobody."""
    pitch = type_.channels if layout is Layout.ROWS else type_.pixels
    return Location(root, layout, stored.dtype, pitch, 0, stored.scale, stored.zero_point)


def storage_elements(layout: Layout, type_: TensorType) -> int:
    """How many elements a value takes up, padding included."""
    return type_.elements if layout is Layout.ROWS else type_.pixels * type_.slices * 4


def slice_channels(array: np.ndarray) -> np.ndarray:
    """The SLICED form of an array: [slice][pixel][4], zeros in the lanes beyond the last
    channel.
    """
    channels = array.shape[-1] if array.ndim else 1
    rows = array.reshape(math.prod(array.shape[:-1]), channels)
    slices = -(-channels // 4)
    padded = np.zeros((rows.shape[0], slices * 4), array.dtype)
    padded[:, :channels] = rows
    return np.ascontiguousarray(padded.reshape(rows.shape[0], slices, 4).transpose(1, 0, 2))


def region_location(
    whole: Location, outer: TensorType, inner: TensorType, axis: int, start: int
) -> Location | None:
    """The place of the box `inner` that starts at `start` along `axis` of a value; None if it is
    no view.
    """
    last = axis == outer.rank - 1
    if (last and whole.channels) or (whole.image and not last):
        return None
    if whole.layout is Layout.ROWS:
        step = whole.plane or 1 if last else math.prod(outer.shape[axis + 1 : -1]) * whole.pitch
    elif last:
        ends = start + inner.channels == outer.channels
        if start % 4 or (inner.channels % 4 and not ends):
            return None
        step = whole.pitch
    else:
        step = math.prod(outer.shape[axis + 1 : -1]) * 4
    if not last and math.prod(outer.shape[:axis]) != 1:
        return None
    return replace(whole, offset=whole.offset + start * step)


def reshaped_location(place: Location, before: TensorType, after: TensorType) -> Location | None:
    """The place of the same elements in the same order under another shape; None if they must
    move.
    """
    if before.channels == after.channels:
        return place
    if place.channels or place.plane:
        return None
    if place.layout is Layout.ROWS and place.pitch == before.channels:
        return replace(place, pitch=after.channels)
    return None
