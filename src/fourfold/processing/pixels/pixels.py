"""Pixels: the byte format and scaling of a picture input, with a NumPy reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from operator import index
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.processing.pixels.colors import (
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
from fourfold.processing.pixels.frame_fit import (
    FITS,
    RESIZES,
    Box,
    FrameFit,
    Size,
    fit_frame,
    resize_frames,
)
from fourfold.types import DType, Shape, TensorType

if TYPE_CHECKING:
    from fourfold.graph.metadata import ModelMetadata, TensorMetadata

    class HasMetadata(Protocol):
        """An object with metadata, such as a session."""

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
_INTEGER_COUNTS = {"size": 2, "crop": 4, "into": 2}


@dataclass(frozen=True)
class Pixels:
    """Byte format and scaling of a picture input: the model gets (byte - mean) / std as floats.

    Args:
        mean: One number, or one per channel of the model: red, green, blue.
        std: One number, or one per channel of the model.
        order: Byte order of the caller's pixels: 'rgb', 'bgr', 'rgba' or 'bgra' (alpha is dropped),
            'gray', or a YUV format: 'nv12', 'nv21', 'yuv420' (an array of luma rows followed by
            chroma rows).
        size: Height and width of the frames. None accepts frames of any size if there is a `fit`.
        fit: How frames fit into the model's picture: 'stretch', 'letterbox' (whole frame, aspect
            ratio kept, bars around it) or 'crop' (center, aspect ratio kept). None: frames have the
            model's size.
        resize: 'bilinear', 'nearest', 'area' or 'antialias' (bilinear, smoothed when shrinking).
        crop: Part to cut out of each frame first: top, left, height, width.
        fill: Color of letterbox bars.
        into: Size of the model's picture if the model leaves it open.
        matrix: Conversion of YUV to RGB: 'bt601', 'bt601-full', 'bt709' or 'bt709-full'.
        model_order: Channel order of the model: 'rgb' or 'bgr'. `mean`, `std` and `fill` use it,
            too.
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
        for title, choices in _CHOICES.items():
            _check_choice(title, getattr(self, title), choices)
        for title, count in _INTEGER_COUNTS.items():
            object.__setattr__(self, title, _integers(title, getattr(self, title), count))
        if self.fit is None and (self.size or self.crop or self.into):
            object.__setattr__(self, "fit", "stretch")
        for title in ("mean", "std", "fill"):
            object.__setattr__(self, title, self._numbers(title))
        if not all(self._spread("std")):
            what, why = f"the std of pixels is {self.std}", "pixels are divided by it"
            raise InputError(what, why, "pass std=1 to leave pixels undivided")
        if self.size is not None:
            self._check_frame(self.size)

    def _numbers(self, title: str) -> float | tuple[float, ...]:
        """Return one number if all channels have the same, else one per channel."""
        value = getattr(self, title)
        try:
            numbers = value if hasattr(value, "__len__") else (value,)
            parsed = tuple(float(one) + 0.0 for one in numbers)  # not -0.0
        except (TypeError, ValueError):
            parsed = ()
        if len(parsed) not in (1, self.channels) or not all(map(isfinite, parsed)):
            raise InputError(
                f"the {title} of pixels is {value!r}",
                f"pixels in the order {self.order} have {self.channels} channels",
                f"pass one number, or {self.channels} of them",
            )
        return parsed[0] if len(set(parsed)) == 1 else parsed

    def _spread(self, title: str) -> tuple[float, ...]:
        value = getattr(self, title)
        return value if isinstance(value, tuple) else (value,) * self.channels

    def _check_frame(self, frame: Size) -> None:
        """Raise InputError if frames of this size cannot have the byte order or the crop."""
        height, width = frame
        if self.is_yuv and (height % 2 or width % 2):
            why = f"in {self.order}, blocks of 2x2 pixels share their chroma"
            fix = "pass frames of even height and width"
            raise InputError(f"frames of {height}x{width} cannot be {self.order}", why, fix)
        if self.crop is not None:
            top, left, tall, wide = self.crop
            if top + tall > height or left + wide > width:
                what = f"crop={self.crop} is not inside a frame of {height}x{width}"
                why = f"it ends at row {top + tall} and column {left + wide}"
                raise InputError(what, why, "pass (top, left, height, width) in the frame's pixels")

    @staticmethod
    def from_metadata(
        described: ModelMetadata | HasMetadata, name: str = "", order: str = "", **frame: Any
    ) -> Pixels:
        """Return the scaling that a model's metadata define.

        Args:
            described: A session, or its `metadata`.
            name: Name of the input, if several are images.
            order: Byte order of the caller's pixels, if it differs from the model's.
            frame: Further fields of `Pixels`, such as `fit`.
        """
        metadata = cast("ModelMetadata", getattr(described, "metadata", described))
        return replace(_only_image(metadata, name, order), **frame)

    @staticmethod
    def parse(text: str) -> Pixels:
        """Parse the text that `str()` returns."""
        order, *parts = text.split(", ")
        values: dict[str, Any] = {}
        for title, *words in (part.split() for part in parts):
            if title in _INTEGER_COUNTS:
                values[title] = tuple(map(int, words))
            elif title in _CHOICES:
                values[title] = words[0]
            else:
                values[title] = tuple(map(float, words))
        return Pixels(order=order, **values)

    @property
    def channels(self) -> int:
        """Number of channels of the model's picture."""
        return 1 if self.order == "gray" else 3

    @property
    def is_yuv(self) -> bool:
        """True for YUV formats."""
        return self.order in YUV_ORDERS

    @property
    def is_plain(self) -> bool:
        """True if frames have the size of the model's picture and no conversion from YUV."""
        return self.fit is None and not self.is_yuv

    @property
    def bytes(self) -> int:
        """Number of bytes per pixel, luma only for YUV."""
        return bytes_of_pixel(self.order)

    @property
    def readings(self) -> list[tuple[int, float, float]]:
        """For each channel of the model: index of its byte (or of red, green, blue), mean and
        scale.
        """
        indices = ORDERS.get(self.order, (0, 1, 2))
        scales = (1 / one for one in self._spread("std"))
        turned = indices[::-1] if self.model_order == "bgr" else indices
        return list(zip(turned, self._spread("mean"), scales, strict=True))

    @property
    def read_fill(self) -> tuple[float, ...]:
        """The color of bars, in the order in which pixels are read."""
        indices = [index for index, _, _ in self.readings]
        fills = dict(zip(indices, self._spread("fill"), strict=True))
        count = 3 if self.is_yuv else self.bytes
        return tuple(fills.get(channel, 0.0) for channel in range(count))

    def frame_shape(self, batch: int, size: Size) -> Shape:
        """Return the shape of an array of frames of this height and width."""
        return (batch, *frame_shape(self.order, size))

    def frame_size(self, model: Size) -> Size:
        """Return height and width of frames: `size`, or by default about those of the model's
        picture.
        """
        if self.size is not None or self.fit is None:
            return self.size or model
        top, left, tall, wide = self.crop or (0, 0, 0, 0)
        height, width = max(model[0], top + tall), max(model[1], left + wide)
        return (height + height % 2, width + width % 2) if self.is_yuv else (height, width)

    def size_of(self, shape: Shape) -> Size | None:
        """Return height and width of frames in an array of this shape, or None if it does not
        fit.
        """
        return frame_size(self.order, shape)

    def fit_frame(self, frame: Size, model: Size) -> FrameFit:
        """Return where a frame of this height and width lies in the model's picture."""
        self._check_frame(frame)
        if self.fit is None and frame != model:
            what = f"frames of {frame[0]}x{frame[1]} do not fit a picture of {model[0]}x{model[1]}"
            why = "no fit was specified"
            raise InputError(what, why, f"pass Pixels(..., fit=...) with one of {', '.join(FITS)}")
        return fit_frame(frame, model, self.fit or "stretch", self.crop)

    def real(self, frames: np.ndarray, shape: Shape | None = None) -> np.ndarray:
        """Convert frames to the numbers that the model gets, with NumPy.

        Args:
            frames: A uint8 array with a batch axis.
            shape: Shape of the model's input, NHWC or NCHW. Needed only if frames are resized.
        """
        picture = _fitted(self, frames, shape)
        indices, means, scales = zip(*self.readings, strict=True)
        picture = picture[..., 2::-1] if indices == (2, 1, 0) else picture[..., : len(indices)]
        real: np.ndarray = np.subtract(picture, np.array(means, np.float32), dtype=np.float32)
        real *= np.array(scales, np.float32)
        first = shape is not None and channels_first(shape, self.channels)
        return np.ascontiguousarray(np.moveaxis(real, -1, 1)) if first else real

    def numbers(self, frames: np.ndarray, type_: TensorType) -> np.ndarray:
        """Convert frames to the type of the model's input. For int8, 128 is subtracted."""
        real = self.real(frames, type_.shape)
        if type_.dtype is DType.F32:
            return real
        shift = np.float32(128 if type_.dtype is DType.I8 else 0)
        return np.rint(real - shift).astype(type_.dtype.numpy)

    def __str__(self) -> str:
        shown = {"mean": self.mean, "std": self.std}
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        shown |= {
            one.name: values[one.name]
            for one in fields(self)
            if one.name not in ("order", *shown) and values[one.name] != one.default
        }
        return ", ".join([self.order, *(f"{title} {_words(one)}" for title, one in shown.items())])


def _fitted(pixels: Pixels, frames: np.ndarray, shape: Shape | None) -> np.ndarray:
    """Return the resized picture with values from 0 to 255, in the byte order of the frames."""
    frame = pixels.size_of(frames.shape)
    model = pixels.into if shape is None else height_and_width(shape, pixels.channels)
    if frame is None or (model is None and pixels.fit is not None):
        if frame is not None:
            why, fix = (
                "the size of the model's picture is unknown",
                "pass shape=, or Pixels(into=...)",
            )
        else:
            why = f"frames in {pixels.order} must have the shape {describe_frames(pixels.order)}"
            fix = "pass such an array, with a batch axis"
        raise InputError(f"frames of shape {frames.shape} cannot be read", why, fix)
    fit = pixels.fit_frame(frame, model or frame)
    if fit.is_identity and not pixels.is_yuv:
        return frames
    read = pixel_reader(frames, pixels.order, pixels.matrix)
    return resize_frames(read, fit, pixels.resize, pixels.read_fill)


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(repr, value))
    return value if isinstance(value, str) else repr(value)


def _check_choice(title: str, value: object, choices: Sequence[str]) -> None:
    if value in choices or (title == "fit" and value is None):
        return
    what, why = f"pixels have no {title} {value!r}", f"it must be one of {', '.join(choices)}"
    raise InputError(what, why, nearest(str(value), choices))


def _integers(title: str, values: Any, count: int) -> tuple[int, ...] | None:
    """Return positions and sizes as integers. Sizes must be positive."""
    if values is None:
        return None
    names = ("top", "left", "height", "width")[-count:]
    try:
        integers = tuple(index(one) for one in values)
    except TypeError:
        integers = ()
    if len(integers) != count or min(integers) < 0 or min(integers[-2:]) < 1:
        what, why = f"the {title} of pixels is {values!r}", "it must be in pixels"
        raise InputError(what, why, f"pass ({', '.join(names)}) as integers")
    return integers


def channels_first(shape: Shape, channels: int) -> bool:
    """Return True if the shape of a picture is NCHW, as in ONNX and Caffe."""
    return len(shape) == 4 and shape[-1] != channels and shape[1] == channels


def height_and_width(shape: Shape, channels: int) -> Size:
    """Return height and width of a picture with this shape."""
    rows = 2 if channels_first(shape, channels) else 1
    return shape[rows], shape[rows + 1]


def metadata_pixels(inputs: Sequence[TensorMetadata], order: str = "") -> dict[int, Pixels]:
    """Return the scaling of image inputs by index, where the metadata define it."""
    own = {}
    for place, tensor in enumerate(inputs):
        scaled = tensor.normalization
        if tensor.content == IMAGE and scaled is not None and scaled.mean and scaled.std:
            own[place] = Pixels(scaled.mean, scaled.std, order or tensor.color or "rgb")
    return own


def _only_image(metadata: ModelMetadata, name: str, order: str) -> Pixels:
    """Return the scaling of the image with this name, or of the only one."""
    images = metadata_pixels(metadata.inputs, order)
    if name:
        images = {key: one for key, one in images.items() if metadata.inputs[key].name == name}
    if len(images) != 1:
        names = [one.name for one in metadata.inputs if one.content == IMAGE]
        what = f"the metadata do not say how pixels{f' of {name!r}' if name else ''} are scaled"
        why = f"{len(images)} of the images {names} have a mean and a std"
        fix = "pass name= of one of them, or the numbers: fourfold.Pixels(mean=..., std=...)"
        raise InputError(what, why, fix)
    return next(iter(images.values()))


AUTO: Literal["auto"] = "auto"

# For the only picture, by input name, or 'auto' to use the scaling in the metadata.
PixelsOfPicture = Pixels | Literal["auto"]
PixelsOption = PixelsOfPicture | Mapping[str, Pixels]


def checked_pixels(option: object) -> PixelsOption | None:
    """Return the option if it is valid, or None if it is empty. Raises InputError otherwise."""
    if isinstance(option, str) and option == AUTO:
        return AUTO
    named = option if isinstance(option, Mapping) else {"": option}
    for name, one in named.items():
        if not isinstance(one, Pixels) and option is not None:
            what = f"pixels{f' of {name!r}' if name else ''} are {one!r}"
            why = "pixels must be a fourfold.Pixels that describes the bytes of a picture"
            fix = "pass fourfold.Pixels(mean=..., std=..., order='rgb'), or 'auto'"
            raise InputError(what, why, fix)
    return option or None  # type: ignore[return-value]


def pixels_text(option: PixelsOption | None) -> str:
    """Return an option as text, for cache keys."""
    if option is None or isinstance(option, Pixels | str):
        return "" if option is None else str(option)
    return "; ".join(f"{name}: {one}" for name, one in sorted(option.items()))
