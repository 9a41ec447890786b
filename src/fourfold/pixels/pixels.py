"""Pixels: what a caller says of a picture, checked, in words, and as NumPy would make it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.pixels.colors import (
    MATRICES,
    MODEL_ORDERS,
    ORDERS,
    YUV_ORDERS,
    bytes_of_pixel,
    describe_frames,
    frame_shape,
    frame_size,
    pixel_reader,
)
from fourfold.pixels.frame_fit import FITS, Box, FrameFit, Size, fit_frame
from fourfold.pixels.resize import RESIZES, resize_frames
from fourfold.types import DType, Shape, TensorType

if TYPE_CHECKING:
    from fourfold.metadata import ModelMetadata, TensorMetadata

    class HasMetadata(Protocol):
        """A session, for one."""

        @property
        def metadata(self) -> ModelMetadata: ...


IMAGE = "image"
_CHOICES: Mapping[str, Sequence[str]] = {
    "order": (*ORDERS, *YUV_ORDERS),
    "fit": FITS,
    "resize": RESIZES,
    "matrix": tuple(MATRICES),
    "model_order": MODEL_ORDERS,
}
_WHOLE = {"size": 2, "crop": 4, "into": 2}  # how many whole numbers each is


@dataclass(frozen=True)
class Pixels:
    """A picture comes as uint8, and the model gets (byte - mean) / std, in floats.

    `mean` and `std` are one number, or one for each of the model's channels: red, green, blue.
    `order` is what the caller's bytes hold: 'rgb', 'bgr', 'rgba', 'bgra', whose last byte is
    dropped, 'gray', or a camera's 'nv12', 'nv21' or 'yuv420': then an array holds the rows of
    brightness and below them those of colours, and `matrix` says how they become red, green and
    blue: 'bt601', 'bt601-full', 'bt709', 'bt709-full'.

    With a `fit`, frames have another size than the model's picture: 'stretch', 'letterbox' (all of
    the frame, proportions kept, bars of the colour `fill` around it) or 'crop' (its middle,
    proportions kept). `resize` is 'bilinear', 'nearest', 'area' or 'antialias' (bilinear, smoothed
    where it shrinks). `size` is height and width of the frames; without it frames of any size may
    come. `crop` cuts a part out of each frame before all else: top, left, height, width. `into` is
    the size of the model's picture, where the model leaves it open. `model_order='bgr'` is for
    models that take blue first; `mean`, `std` and `fill` are then in that order, too.
    """

    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    order: str = "rgb"
    size: Size | None = None
    fit: str | None = None
    resize: str = "bilinear"
    crop: Box | None = None
    fill: float | Sequence[float] = 114.0
    into: Size | None = None
    matrix: str = "bt601"
    model_order: str = "rgb"

    def __post_init__(self) -> None:
        for title, known in _CHOICES.items():
            _check_choice(title, getattr(self, title), known)
        for title, count in _WHOLE.items():
            object.__setattr__(self, title, _whole_numbers(title, getattr(self, title), count))
        if self.fit is None and (self.size or self.crop or self.into):
            object.__setattr__(self, "fit", "stretch")
        for title in ("mean", "std", "fill"):
            object.__setattr__(self, title, self._numbers(title))
        if not all(self._spread("std")):
            what, why = f"the std of pixels is {self.std}", "pixels are divided by it"
            raise InputError(what, why, "pass 1 where nothing is to be divided")
        if self.size is not None:
            self._check_frame(self.size)

    def _numbers(self, title: str) -> float | tuple[float, ...]:
        """One number where all channels have the same, else one each."""
        given = getattr(self, title)
        try:
            numbers = given if hasattr(given, "__len__") else (given,)
            found = tuple(float(one) + 0.0 for one in numbers)  # not -0.0
        except (TypeError, ValueError):
            found = ()
        if len(found) not in (1, self.channels) or not all(map(isfinite, found)):
            raise InputError(
                f"the {title} of pixels is {given!r}",
                f"pixels in the order {self.order} have {self.channels} channels",
                f"pass one number, or {self.channels} of them",
            )
        return found[0] if len(set(found)) == 1 else found

    def _spread(self, title: str) -> tuple[float, ...]:
        found = getattr(self, title)
        return found if isinstance(found, tuple) else (found,) * self.channels

    def _check_frame(self, frame: Size) -> None:
        """Whether frames of this size can be what the rest says."""
        height, width = frame
        if self.is_yuv and (height % 2 or width % 2):
            why = f"in {self.order} four pixels share a colour"
            fix = "pass frames of an even height and width"
            raise InputError(f"frames of {height}x{width} cannot be {self.order}", why, fix)
        if self.crop is not None:
            top, left, tall, wide = self.crop
            if top + tall > height or left + wide > width:
                what = f"crop={self.crop} is not inside of a frame of {height}x{width}"
                why = f"it ends at row {top + tall} and column {left + wide}"
                raise InputError(what, why, "pass (top, left, height, width) in the frame's pixels")

    @staticmethod
    def from_metadata(
        described: ModelMetadata | HasMetadata, name: str = "", order: str = "", **frame: Any
    ) -> Pixels:
        """As a model's metadata want it: of a session or of its `metadata`. `name` is that of the
        input where several are images, `order` that of the bytes, if not as in the model. What
        else is known of frames is as for `Pixels`.
        """
        metadata = cast("ModelMetadata", getattr(described, "metadata", described))
        return replace(_only_image(metadata, name, order), **frame)

    @staticmethod
    def parse(text: str) -> Pixels:
        """What `str` wrote."""
        order, *parts = text.split(", ")
        given: dict[str, Any] = {}
        for title, *words in (part.split() for part in parts):
            if title in _WHOLE:
                given[title] = tuple(map(int, words))
            elif title in _CHOICES:
                given[title] = words[0]
            else:
                given[title] = tuple(map(float, words))
        return Pixels(order=order, **given)

    @property
    def channels(self) -> int:
        """How many channels the model gets."""
        return 1 if self.order == "gray" else 3

    @property
    def is_yuv(self) -> bool:
        """Whether brightness and colour come apart."""
        return self.order in YUV_ORDERS

    @property
    def is_plain(self) -> bool:
        """Whether the bytes of the model's own pictures come, each in its place."""
        return self.fit is None and not self.is_yuv

    @property
    def bytes(self) -> int:
        """How many bytes a pixel of the caller's has for itself."""
        return bytes_of_pixel(self.order)

    @property
    def readings(self) -> list[tuple[int, float, float]]:
        """For each channel its byte, or its place among red, green and blue, its mean, and its
        scale.
        """
        places = ORDERS.get(self.order, (0, 1, 2))
        scales = (1 / one for one in self._spread("std"))
        turned = places[::-1] if self.model_order == "bgr" else places
        return list(zip(turned, self._spread("mean"), scales, strict=True))

    @property
    def read_fill(self) -> tuple[float, ...]:
        """The colour of bars in the order in which pixels are read."""
        places = [place for place, _, _ in self.readings]
        found = dict(zip(places, self._spread("fill"), strict=True))
        count = 3 if self.is_yuv else self.bytes
        return tuple(found.get(place, 0.0) for place in range(count))

    def frame_shape(self, batch: int, size: Size) -> Shape:
        """The shape of the array in which frames of this height and width come."""
        return (batch, *frame_shape(self.order, size))

    def frame_size(self, model: Size) -> Size:
        """Height and width of frames: as was said, or until others come those of the model's
        picture, as far as frames can have them.
        """
        if self.size is not None or self.fit is None:
            return self.size or model
        top, left, tall, wide = self.crop or (0, 0, 0, 0)
        height, width = max(model[0], top + tall), max(model[1], left + wide)
        return (height + height % 2, width + width % 2) if self.is_yuv else (height, width)

    def size_of(self, shape: Shape) -> Size | None:
        """Height and width of frames that come in an array of this shape; None if it is none."""
        return frame_size(self.order, shape)

    def fit_frame(self, frame: Size, model: Size) -> FrameFit:
        """Where a frame of this height and width lies in the model's picture."""
        self._check_frame(frame)
        if self.fit is None and frame != model:
            what = f"frames of {frame[0]}x{frame[1]} cannot go into {model[0]}x{model[1]}"
            why = "it is not said how they are to be fitted"
            raise InputError(what, why, f"pass Pixels(..., fit=...) with one of {', '.join(FITS)}")
        return fit_frame(frame, model, self.fit or "stretch", self.crop)

    def real(self, frames: np.ndarray, shape: Shape | None = None) -> np.ndarray:
        """The numbers that the model gets, by NumPy, in its `shape`, which may have the channels
        before the rows; it need not be said where frames are not resized.
        """
        found = _fitted(self, frames, shape)
        places, means, scales = zip(*self.readings, strict=True)
        found = found[..., 2::-1] if places == (2, 1, 0) else found[..., : len(places)]
        real: np.ndarray = np.subtract(found, np.array(means, np.float32), dtype=np.float32)
        real *= np.array(scales, np.float32)
        first = shape is not None and channels_first(shape, self.channels)
        return np.ascontiguousarray(np.moveaxis(real, -1, 1)) if first else real

    def numbers(self, frames: np.ndarray, type_: TensorType) -> np.ndarray:
        """The same in the type of a model that may take bytes itself: int8 has 128 for its zero."""
        real = self.real(frames, type_.shape)
        if type_.dtype is DType.F32:
            return real
        shift = np.float32(128 if type_.dtype is DType.I8 else 0)
        return np.rint(real - shift).astype(type_.dtype.numpy)

    def __str__(self) -> str:
        shown = {"mean": self.mean, "std": self.std}
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        shown |= {
            one.name: given[one.name]
            for one in fields(self)
            if one.name not in ("order", *shown) and given[one.name] != one.default
        }
        return ", ".join([self.order, *(f"{title} {_words(one)}" for title, one in shown.items())])


def _fitted(pixels: Pixels, frames: np.ndarray, shape: Shape | None) -> np.ndarray:
    """The picture from 0 to 255, as pixels are read."""
    frame = pixels.size_of(frames.shape)
    model = pixels.into if shape is None else height_and_width(shape, pixels.channels)
    if frame is None or (model is None and pixels.fit is not None):
        if frame is not None:
            why, fix = "the model's size is not said", "pass shape=, or Pixels(into=...)"
        else:
            why = f"frames in {pixels.order} come as {describe_frames(pixels.order)}"
            fix = "pass such an array, with a batch axis"
        raise InputError(f"frames of shape {frames.shape} cannot be read", why, fix)
    fit = pixels.fit_frame(frame, model or frame)
    if fit.changes_nothing and not pixels.is_yuv:
        return frames
    read = pixel_reader(frames, pixels.order, pixels.matrix)
    return resize_frames(read, fit, pixels.resize, pixels.read_fill)


def _words(given: object) -> str:
    if isinstance(given, tuple):
        return " ".join(map(repr, given))
    return given if isinstance(given, str) else repr(given)


def _check_choice(title: str, given: object, known: Sequence[str]) -> None:
    if given in known or (title == "fit" and given is None):
        return
    what, why = f"there is no {title} {given!r} of pixels", f"it is one of {', '.join(known)}"
    raise InputError(what, why, nearest(str(given), known))


def _whole_numbers(title: str, given: Any, count: int) -> tuple[int, ...] | None:
    """Sizes, or places and sizes: what is a size is not zero."""
    if given is None:
        return None
    names = ("top", "left", "height", "width")[-count:]
    try:
        found = tuple(index(one) for one in given)
    except TypeError:
        found = ()
    if len(found) != count or min(found) < 0 or min(found[-2:]) < 1:
        what, why = f"the {title} of pixels is {given!r}", "it counts pixels"
        raise InputError(what, why, f"pass ({', '.join(names)}) as whole numbers")
    return found


def channels_first(shape: Shape, channels: int) -> bool:
    """Whether a picture of the model's has its channels before its rows, as ONNX and Caffe do."""
    return len(shape) == 4 and shape[-1] != channels and shape[1] == channels


def height_and_width(shape: Shape, channels: int) -> Size:
    """Height and width of a picture of the model's."""
    rows = 2 if channels_first(shape, channels) else 1
    return shape[rows], shape[rows + 1]


def own_pixels(inputs: Sequence[TensorMetadata], order: str = "") -> dict[int, Pixels]:
    """Of those inputs, by their places, that are images and say how they are scaled."""
    found = {}
    for place, tensor in enumerate(inputs):
        scaled = tensor.normalization
        if tensor.content == IMAGE and scaled is not None and scaled.mean and scaled.std:
            found[place] = Pixels(scaled.mean, scaled.std, order or tensor.color or "rgb")
    return found


def _only_image(metadata: ModelMetadata, name: str, order: str) -> Pixels:
    """Of the image of this name, or of the only one."""
    found = own_pixels(metadata.inputs, order)
    if name:
        found = {key: one for key, one in found.items() if metadata.inputs[key].name == name}
    if len(found) != 1:
        images = [one.name for one in metadata.inputs if one.content == IMAGE]
        what = f"the metadata do not say how pixels{f' of {name!r}' if name else ''} are scaled"
        why = f"{len(found)} of the images {images} come with a mean and a std"
        fix = "pass a name= of one of them, or the numbers: fourfold.Pixels(mean=..., std=...)"
        raise InputError(what, why, fix)
    return next(iter(found.values()))
