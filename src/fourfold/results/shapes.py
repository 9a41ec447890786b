"""Shapes of inputs and outputs as families are told by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fourfold.pixels import Pixels
from fourfold.results.found import Size
from fourfold.results.meaning import Described, DescribedModel
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

CHANNELS = (1, 3, 4)
LEAST_SIDE = 16  # of a mask or a picture


def picture_input(inputs: Sequence[TensorInfo]) -> TensorInfo | None:
    """The only input, where it can be a picture: [1, height, width, channels] or channels first."""
    if len(inputs) != 1 or inputs[0].is_text:
        return None
    (info,) = inputs
    return info if info.pixels or picture_size(info) is not None else None


def picture_size(info: TensorInfo) -> Size | None:
    """Height and width of the model's picture; None where the input is none, or where frames of
    any size come and the model's own is not known.
    """
    if info.pixels:
        fitted = Pixels.parse(info.pixels)
        return fitted.into if fitted.fit is not None else fitted.size_of(info.shape)
    numbers = info.dtype.kind == "f" or info.dtype.name in ("uint8", "int8")
    if len(info.shape) != 4 or info.shape[0] != 1 or not numbers:
        return None
    _, first, second, last = info.shape
    if last in CHANNELS and (last != 1 or min(first, second) >= LEAST_SIDE):
        return first, second
    return (second, last) if first in CHANNELS and min(second, last) >= LEAST_SIDE else None


def before_frames(model: Described) -> DescribedModel:
    """A session as it was opened. An input that takes frames of any size has until the first run
    the size of the model's picture, which its shape does not tell any more when others have come.
    """
    shapes = {info.name: info.shape for info in model.inputs}
    shapes = getattr(model, "default_shapes", shapes)
    inputs = tuple(_with_size(info, shapes.get(info.name, ())) for info in model.inputs)
    return DescribedModel(inputs, tuple(model.outputs), model.metadata)


def _with_size(info: TensorInfo, shape: Shape) -> TensorInfo:
    """The same with the size of the model's picture, where this shape tells it."""
    if not info.pixels:
        return info
    pixels = Pixels.parse(info.pixels)
    known = pixels.into or pixels.size or pixels.crop or pixels.is_yuv or pixels.fit is None
    if known:
        return info
    return replace(info, pixels=str(replace(pixels, into=pixels.size_of(shape))))


def model_size(model: Described) -> Size | None:
    """Height and width of the picture that the model sees."""
    info = picture_input(model.inputs)
    return None if info is None else picture_size(info)


def picture_channels(info: TensorInfo) -> int:
    """How many channels the model's picture has, be they first or last."""
    if info.pixels:
        return Pixels.parse(info.pixels).channels
    return info.shape[3] if info.shape[3] in CHANNELS else info.shape[1]


def squeezed(shape: Shape) -> Shape:
    """Without axes of one."""
    return tuple(size for size in shape if size != 1)


def by_shape(outputs: Sequence[TensorInfo], *shapes: Shape) -> list[TensorInfo] | None:
    """The outputs of these shapes, each another one; None where one of them is not there."""
    left, found = list(outputs), []
    for shape in shapes:
        one = next((info for info in left if info.shape == shape), None)
        if one is None:
            return None
        left.remove(one)
        found.append(one)
    return found
