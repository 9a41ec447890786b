"""Pictures as input arrays: read with Pillow, then resized and scaled here or on the device."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fourfold.cli._frames import frame_options
from fourfold.cli._options import Command, ModelArguments
from fourfold.errors import InputError
from fourfold.processing.pictures import MODES, read_picture
from fourfold.processing.pixels import AUTO, ORDERS, YUV_ORDERS, Pixels, PixelsOfPicture
from fourfold.runtime.random_inputs import InputPort
from fourfold.types import DType, to_integers

if TYPE_CHECKING:
    from fourfold.graph.metadata import TensorMetadata

RANGE = "0,1"
RAW = (".yuv", ".nv12", ".nv21", ".raw")
ORDER_CHOICE = click.Choice((*ORDERS, *YUV_ORDERS, AUTO))
ORDER_HELP = (
    "Pass pictures as bytes in this channel order; the device scales them. 'auto' takes the order "
    "and the scaling from the model's metadata.  [default: pass scaled numbers]"
)
RANGE_HELP = (
    "Range that pixels are scaled to.  [default: from the model's metadata, or as is usual for the "
    "model, or 0,1]"
)
MEAN_HELP = "Mean to subtract from each pixel of 0..255, one number or one for each channel."
STD_HELP = "Divisor of each pixel after --mean, one number or one for each channel."


@dataclass(frozen=True)
class Scaling:
    """Scaling of a pixel of 0..255: (pixel - mean) / std, or linearly to low..high."""

    low: float = 0.0
    high: float = 1.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    order: str = ""  # channel order, if the session takes bytes; '' if it takes scaled numbers
    stated: bool = False  # whether the caller chose any of the numbers
    frame: Mapping[str, Any] = field(default_factory=dict)  # other arguments of Pixels

    @property
    def pixels(self) -> PixelsOfPicture | None:
        """The `pixels` option of a session that takes bytes; None for scaled numbers."""
        if not self.order:
            return None
        if self.order == AUTO:
            return AUTO
        if self.mean or self.std:
            return Pixels(self.mean or 0.0, self.std or 1.0, self.order, **self.frame)
        if self.high == self.low:
            what, why = f"--range {self.low},{self.high} has no width", "pixels are scaled to it"
            raise InputError(what, why, "write it as --range 0,1")
        std = 255 / (self.high - self.low)
        return Pixels(-self.low * std, std, self.order, **self.frame)

    def only_pixels(self) -> PixelsOfPicture | None:
        """Return `pixels` for a command that reads no pictures; InputError for a scaling without
        an order.
        """
        if not self.order and self.stated:
            what, why = (
                "--pixels is missing",
                "--range, --mean and --std scale the bytes of pictures",
            )
            raise InputError(what, why, f"add --pixels with one of {', '.join(ORDERS)}")
        return self.pixels

    def __str__(self) -> str:
        if self.mean or self.std:
            mean, std = (" ".join(f"{one:g}" for one in part) for part in (self.mean, self.std))
            return f"pixels less {mean or 0}, divided by {std or 1}"
        return f"pixels from {self.low:g} to {self.high:g}"

    def apply(self, pixels: np.ndarray) -> np.ndarray:
        if self.mean or self.std:
            mean, std = self.mean or (0.0,), self.std or (1.0,)
            return (pixels - np.array(mean, np.float32)) / np.array(std, np.float32)
        return self.low + (self.high - self.low) * pixels / np.float32(255)


def own_scaling(tensor: TensorMetadata | None) -> Scaling | None:
    """Return the scaling in the model's metadata; None if there is none."""
    if tensor is None or tensor.normalization is None or tensor.content not in ("image", ""):
        return None
    mean, std = tensor.normalization.mean, tensor.normalization.std
    return Scaling(mean=mean, std=std) if mean and std and all(std) else None


def scaling_options(command: Command) -> Command:
    """Add --pixels, --range, --mean, --std and options of frames, passed as one `scaling`."""

    @click.option("--pixels", "order", type=ORDER_CHOICE, help=ORDER_HELP)
    @click.option("--range", "limits", metavar="LOW,HIGH", help=RANGE_HELP)
    @click.option("--mean", default="", metavar="M[,M,M]", help=MEAN_HELP)
    @click.option("--std", default="", metavar="S[,S,S]", help=STD_HELP)
    @frame_options
    @functools.wraps(command)
    def wrapped(
        order: str | None,
        limits: str | None,
        mean: str,
        std: str,
        frame: Mapping[str, Any],
        **others: Any,
    ) -> None:
        low, high = parse_numbers("--range", limits or RANGE, 2)
        means, deviations = parse_numbers("--mean", mean), parse_numbers("--std", std)
        stated = bool(limits or mean or std)
        if (stated or frame) and order == AUTO:
            what, why = "--pixels auto is not alone", "it takes all from the model's metadata"
            fix = "leave --range, --mean, --std and --fit out, or name an order"
            raise InputError(what, why, fix)
        order = order or ("rgb" if frame else "")
        command(scaling=Scaling(low, high, means, deviations, order, stated, frame), **others)

    return wrapped


def pixels_options(command: Command) -> Command:
    """Add the options of pixels to a command that reads no pictures, as part of `arguments`."""

    @scaling_options
    @functools.wraps(command)
    def wrapped(arguments: ModelArguments, scaling: Scaling, **others: Any) -> None:
        command(arguments=arguments.with_options(pixels=scaling.only_pixels()), **others)

    return wrapped


def parse_numbers(option: str, text: str, count: int | None = None) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        numbers = ()
    if (text and not numbers) or (count is not None and len(numbers) != count):
        expected = "numbers" if count is None else f"{count} numbers"
        raise InputError(
            f"{option} {text!r} cannot be read",
            f"it takes {expected} with commas between",
            f"write it as {option} {','.join(['0', '1', '2'][: count or 3])}",
        )
    return numbers


def read_image(path: Path, port: InputPort, by: Scaling) -> np.ndarray:
    """Read a picture, stretched to an input of [batch,] height, width, channels, or with channels
    first.
    """
    name, shape = port.name, tuple(port.shape)
    first = len(shape) == 4 and shape[3] not in MODES and shape[1] in MODES
    shape = (shape[0], *shape[2:], shape[1]) if first else shape
    _check_shape(path, name, shape)
    height, width, channels = shape[-3:]
    if any(len(part) not in (0, 1, channels) for part in (by.mean, by.std)):
        raise InputError(
            f"--mean {list(by.mean)} and --std {list(by.std)} do not fit input '{name}'",
            f"it has {channels} channels",
            f"give one number for all channels, or {channels} with commas between",
        )
    pixels = read_picture(path, channels, (width, height)).astype(np.float32)
    array = np.broadcast_to(_as_dtype(pixels, port, by), shape)
    return np.ascontiguousarray(np.moveaxis(array, -1, 1) if first else array)


def read_frame(path: Path, name: str, shape: tuple[int, ...], pixels: Pixels) -> np.ndarray:
    """Read a picture as bytes, in its own size if the input takes frames of any size."""
    if pixels.is_yuv:
        return _raw_frames(path, name, shape, pixels)
    _check_shape(path, name, shape)
    any_size = pixels.fit is not None and pixels.size is None
    bytes_ = read_picture(path, pixels.bytes, None if any_size else (shape[-2], shape[-3]))
    if pixels.order.startswith("bgr"):
        bytes_ = bytes_[..., [2, 1, 0, 3][: pixels.bytes]]
    return np.ascontiguousarray(np.broadcast_to(bytes_, (*shape[:-3], *bytes_.shape)))


def _raw_frames(path: Path, name: str, shape: tuple[int, ...], pixels: Pixels) -> np.ndarray:
    """Read a file that contains only the bytes of frames."""
    frames = np.fromfile(path, np.uint8)
    if path.suffix.lower() not in RAW or frames.size != math.prod(shape):
        what = f"the file {path.name} cannot become input '{name}' of shape {list(shape)}"
        why = f"it takes frames in {pixels.order}, as a camera gives them, {math.prod(shape)} bytes"
        fix = (
            f"pass a file of raw frames ({', '.join(RAW)}), and their --frame-size, or a .npy file"
        )
        raise InputError(what, why, fix)
    return frames.reshape(shape)


def _check_shape(path: Path, name: str, shape: tuple[int, ...]) -> None:
    if len(shape) not in (3, 4) or shape[-1] not in MODES:
        raise InputError(
            f"the picture {path.name} cannot become input '{name}' of shape {list(shape)}",
            "a picture fits an input of [batch, height, width, channels] with 1, 3 or 4 channels",
            "save the input as an array in a .npy file and pass that",
        )


def _as_dtype(pixels: np.ndarray, port: InputPort, by: Scaling) -> np.ndarray:
    """Return scaled pixels for a float input. Other inputs get the pixels unchanged, or quantized
    if the caller chose a scaling.
    """
    dtype, steps = np.dtype(port.dtype), getattr(port, "quantization", None)
    if dtype.kind == "f":
        return by.apply(pixels).astype(dtype)
    if by.stated and steps is not None:
        return to_integers(by.apply(pixels), steps, DType(f"{dtype.kind}{8 * dtype.itemsize}"))
    return (pixels - 128 if dtype == np.int8 else pixels).astype(dtype)
