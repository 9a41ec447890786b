"""Interpret the shapes of inputs and outputs to identify model families."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fourfold.processing.pixels import Pixels
from fourfold.types import Shape
from fourfold.vision.found import Size
from fourfold.vision.meaning import Described, DescribedModel

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

CHANNELS = (1, 3, 4)
MIN_SIDE_PIXELS = 16  # pixels of a mask or a picture


def picture_input(inputs: Sequence[TensorInfo]) -> TensorInfo | None:
    """Return the only input if it can be a picture: [1, height, width, channels] or NCHW."""
    if len(inputs) != 1 or inputs[0].is_text:
        return None
    (info,) = inputs
    return info if info.pixels or picture_size(info) is not None else None


def picture_size(info: TensorInfo) -> Size | None:
    """Return height and width of the model's input picture.

    None if the input is no picture, or takes frames of any size and the model's own size is
    unknown.
    """
    if info.pixels:
        fitted = Pixels.parse(info.pixels)
        return fitted.into if fitted.fit is not None else fitted.size_of(info.shape)
    numbers = info.dtype.kind == "f" or info.dtype.name in ("uint8", "int8")
    if len(info.shape) != 4 or info.shape[0] != 1 or not numbers:
        return None
    _, first, second, last = info.shape
    if last in CHANNELS and (last != 1 or min(first, second) >= MIN_SIDE_PIXELS):
        return first, second
    return (second, last) if first in CHANNELS and min(second, last) >= MIN_SIDE_PIXELS else None


def as_opened(model: Described) -> DescribedModel:
    """Return a session as it was opened.

    An input that takes frames of any size has the size of the model's picture until the first run.
    After other frames came, its shape no longer says that size.
    """
    shapes = {info.name: info.shape for info in model.inputs}
    shapes = getattr(model, "default_shapes", shapes)
    inputs = tuple(_with_size(info, shapes.get(info.name, ())) for info in model.inputs)
    return DescribedModel(inputs, tuple(model.outputs), model.metadata, getattr(model, "title", ""))


def _with_size(info: TensorInfo, shape: Shape) -> TensorInfo:
    """Record the size of the model's picture if this shape defines it."""
    if not info.pixels:
        return info
    pixels = Pixels.parse(info.pixels)
    has_size = pixels.into or pixels.size or pixels.crop or pixels.is_yuv or pixels.fit is None
    if has_size:
        return info
    return replace(info, pixels=str(replace(pixels, into=pixels.size_of(shape))))


def model_size(model: Described) -> Size | None:
    """Return height and width of the model's input picture."""
    info = picture_input(model.inputs)
    return None if info is None else picture_size(info)


def picture_channels(info: TensorInfo) -> int:
    """Return the number of channels of the model's picture, in NHWC or NCHW."""
    if info.pixels:
        return Pixels.parse(info.pixels).channels
    return info.shape[3] if info.shape[3] in CHANNELS else info.shape[1]


def squeezed(shape: Shape) -> Shape:
    """Return the shape without axes of size one."""
    return tuple(size for size in shape if size != 1)
