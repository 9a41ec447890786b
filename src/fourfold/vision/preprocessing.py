"""PictureInput: how photographs become the input of a model, decided by one rule.

Each part of the preprocessing comes from the first source that defines it: what the caller states,
the model's metadata, the model family, its first operators, names and shapes, and a default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pictures import MODES, resize_picture
from fourfold.processing.pixels import Pixels
from fourfold.processing.pixels.frame_fit import FrameFit
from fourfold.processing.pixels.stated import SCALING, StatedPixels
from fourfold.types import DType, Quantization, TensorType, to_integers
from fourfold.vision.found import Size
from fourfold.vision.meaning import GUESSED, Described, Meaning, PictureScaling
from fourfold.vision.read import find_meaning
from fourfold.vision.shapes import as_opened, picture_input

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

FIT_WORDS = {"letterbox": " in a letterbox", "crop": " of the photograph's middle"}
DEFAULT_SCALING = PictureScaling(0.0, 1.0)
STATED, FROM_METADATA = "as stated", "as the model's metadata say"
FROM_GRAPH = "as the model's first operators show"
ITSELF = "which the model scales itself"
_ORDERS = {1: "gray", 3: "rgb", 4: "rgb"}
_ANTIALIAS = "antialias"
_IMAGES = ("image", "")  # metadata of other contents, such as audio, do not scale pixels


@dataclass(frozen=True)
class PictureInput:
    """The input that takes a photograph, and how photographs are converted.

    Attributes:
        name: Name of the input.
        type: Type of the input.
        size: Height and width of the model's input picture.
        pixels: Scaling, channel order and fit.
        told_by: The source of the scaling, such as "as is usual for MobileNet".
        stated: Names of other fields of `pixels` that the caller stated, such as 'fit'.
        quantization: Scale and zero point of an input that takes bytes, if the caller stated a
            scaling of its real numbers.
    """

    name: str
    type: TensorType
    size: Size
    pixels: Pixels
    told_by: str
    stated: tuple[str, ...] = ()
    quantization: Quantization | None = None

    @property
    def channels(self) -> int:
        """Number of channels that a photograph must have before it is converted."""
        return _layout(self.type.shape)[2]

    @property
    def is_real(self) -> bool:
        """True if the input takes real numbers. Otherwise it takes bytes."""
        return self.type.dtype.is_float

    def array(self, frame: np.ndarray) -> np.ndarray:
        """Convert a uint8 photograph [height, width, channels] to the model's input array."""
        fit = self.fit(frame)
        pixels = self.pixels
        if pixels.resize == _ANTIALIAS:  # resize first, so that conversion is cheap
            top, left, height, width = fit.box
            frame = resize_picture(frame[top : top + height, left : left + width], fit.size)
            pixels = replace(pixels, crop=None)
        planes = [pixels.real(frame[None, ..., :3], self._shape(min(self.channels, 3)))]
        if self.channels > 3:  # alpha is scaled like red
            planes.append(_gray(pixels).real(frame[None, ..., 3:], self._shape(1)))
        axis = 1 if _is_channels_first(self.type.shape) else -1
        real = np.concatenate(planes, axis) if len(planes) > 1 else planes[0]
        numbers = self._numbers(real)
        numbers = numbers[0] if self.type.rank == 3 else numbers
        return np.ascontiguousarray(np.broadcast_to(numbers, self.type.shape))

    def _shape(self, channels: int) -> tuple[int, ...]:
        """Return the shape of one picture of the model with this number of channels."""
        first = _is_channels_first(self.type.shape)
        return (1, channels, *self.size) if first else (1, *self.size, channels)

    def _numbers(self, real: np.ndarray) -> np.ndarray:
        dtype = self.type.dtype
        if self.is_real:
            return real.astype(dtype.numpy, copy=False)
        if self.quantization is not None:
            return to_integers(real, self.quantization, dtype)
        return np.rint(real - np.float32(128 if dtype is DType.I8 else 0)).astype(dtype.numpy)

    def fit(self, frame: np.ndarray) -> FrameFit:
        """Return where the photograph lies in the model's input picture."""
        return self.pixels.fit_frame((frame.shape[0], frame.shape[1]), self.size)

    def to_json(self) -> dict[str, Any]:
        """Return the preprocessing as plain data."""
        pixels = self.pixels
        numbers = {"mean": pixels.mean, "std": pixels.std, "range": pixel_range(pixels)}
        scaled = numbers if self.is_real or self.quantization is not None else {}
        return {
            "input": self.name,
            "size": list(self.size),
            **{key: list(one) if isinstance(one, tuple) else one for key, one in scaled.items()},
            "order": "gray" if self.channels == 1 else pixels.model_order,
            "fit": pixels.fit,
            "fill": pixels.fill if pixels.fit == "letterbox" else None,
            "source": self.told_by,
            "stated": list(self.stated),
            "text": str(self),
        }

    def __str__(self) -> str:
        fit = FIT_WORDS.get(self.pixels.fit or "", "")
        order = ", in BGR order" if self.pixels.model_order == "bgr" else ""
        more = f", with the stated {' and '.join(self.stated)}" if self.stated else ""
        scaled = self.is_real or self.quantization is not None
        words = format_range(self.pixels) if scaled else "pixels as bytes"
        return f"{words}{fit}{order}, {self.told_by}{more}"


def pixel_range(pixels: Pixels) -> tuple[float, float] | None:
    """Return the numbers that the bytes 0 and 255 become; None if these differ by channel."""
    if not isinstance(pixels.mean, float) or not isinstance(pixels.std, float):
        return None
    return (0.0 - pixels.mean) / pixels.std, (255 - pixels.mean) / pixels.std


def format_range(pixels: Pixels) -> str:
    """Return 'pixels from -1 to 1', or mean and std if these differ by channel."""
    limits = pixel_range(pixels)
    if limits is not None:
        return f"pixels from {limits[0]:.3g} to {limits[1]:.3g}"
    mean, std = (_rounded(one) for one in (pixels.mean, pixels.std))
    return f"pixels minus {mean}, divided by {std}"


def _rounded(value: Any) -> str:
    numbers = value if isinstance(value, tuple) else (value,)
    return " ".join(f"{one:.4g}" for one in numbers)


def _gray(pixels: Pixels) -> Pixels:
    first: dict[str, Any] = {
        name: _first(getattr(pixels, name)) for name in ("mean", "std", "fill")
    }
    return replace(pixels, order="gray", model_order="rgb", **first)


def _first(value: Any) -> float:
    return float(value[0]) if isinstance(value, tuple) else float(value)


def find_picture_input(
    model: Described, stated: StatedPixels | None = None, name: str = ""
) -> PictureInput | None:
    """Return an input that takes photographs, and how photographs are converted.

    All commands and functions that read photographs use this rule. None if the input is no
    picture, or if the session takes frames (`pixels=`).

    Args:
        model: A session, or another description of a model.
        stated: What the caller states. It overrides what the model says.
        name: Name of the input; by default the only one.
    """
    opened = as_opened(model)
    info = _find_input(opened, name)
    if info is None or info.pixels:
        return None
    height, width, channels = _layout(info.shape)
    if not channels:
        return None
    stated = stated or StatedPixels()
    meaning = find_meaning(opened) if picture_input(opened.inputs) is not None else None
    limits = opened.metadata.input_ranges.get(info.name)
    pixels, told_by = _model_pixels(info, channels, meaning, limits)
    quantization = None
    if stated.scales and (info.dtype.kind == "f" or info.quantization is not None):
        told_by, quantization = STATED, info.quantization
    changes = stated.changes()
    if info.dtype.kind != "f" and quantization is None:
        changes = {key: one for key, one in changes.items() if key not in SCALING}
    pixels = _changed(info.name, channels, pixels, changes)
    others = tuple(one.replace("_", " ") for one in stated.names if one not in SCALING)
    type_ = TensorType(DType.of(np.empty(0, info.dtype)), info.shape)
    return PictureInput(info.name, type_, (height, width), pixels, told_by, others, quantization)


def _find_input(model: Described, name: str) -> TensorInfo | None:
    if not name:
        return picture_input(model.inputs)
    return next((info for info in model.inputs if info.name == name), None)


def _is_channels_first(shape: tuple[int, ...]) -> bool:
    return shape[-1] not in MODES and shape[-3] in MODES


def _layout(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return height, width and channels of [batch,] pictures; zeros if the shape is none."""
    if len(shape) not in (3, 4) or (shape[-1] not in MODES and shape[-3] not in MODES):
        return 0, 0, 0
    if _is_channels_first(shape):
        return shape[-2], shape[-1], shape[-3]
    return shape[-3], shape[-2], shape[-1]


def _model_pixels(
    info: TensorInfo, channels: int, meaning: Meaning | None, limits: tuple[float, float] | None
) -> tuple[Pixels, str]:
    """Return what the model says: its metadata, its family, its first operators (`limits`), hints,
    or the default.
    """
    scaling = None if meaning is None else meaning.scaling
    scale = scaling or DEFAULT_SCALING
    fitted: dict[str, Any] = {"fit": scale.fit, "fill": scale.fill, "resize": _ANTIALIAS}
    fitted |= {"order": _ORDERS[channels], "model_order": scale.order}
    if info.dtype.kind != "f":
        return Pixels(**fitted), ITSELF
    metadata = info.metadata
    numbers = None if metadata is None else metadata.normalization
    if metadata is not None and numbers is not None and metadata.content in _IMAGES:
        usable = numbers.mean and numbers.std and all(numbers.std)
        if usable and {len(numbers.mean), len(numbers.std)} <= {1, min(channels, 3)}:
            return Pixels(numbers.mean, numbers.std, **fitted), FROM_METADATA
    if limits is not None and (scaling is None or meaning is None or meaning.is_hint):
        return Pixels(**PictureScaling(*limits).numbers, **fitted), FROM_GRAPH
    if scaling is None or meaning is None:
        return Pixels(**scale.numbers, **fitted), GUESSED
    told_by = meaning.scaled_by or f"as is usual for {meaning.family}"
    return Pixels(**scale.numbers, **fitted), told_by


def _changed(name: str, channels: int, pixels: Pixels, changes: dict[str, Any]) -> Pixels:
    for title in ("mean", "std"):
        numbers = changes.get(title, 0.0)
        count = len(numbers) if isinstance(numbers, tuple | list) else 1
        if count not in (1, min(channels, 3)):
            raise InputError(
                f"the {title} {list(numbers)} does not fit input '{name}'",
                f"it has {channels} channels",
                f"give one number for all channels, or {channels} with commas between",
            )
    return replace(pixels, **changes)
