"""Pictures as input arrays: read with Pillow, then resized and scaled here or on the device."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fourfold.cli._frames import FITTING, frame_options
from fourfold.cli._options import Command, ModelArguments
from fourfold.errors import InputError
from fourfold.processing.pictures import MODES, read_picture
from fourfold.processing.pixels import AUTO, ORDERS, YUV_ORDERS, Pixels, PixelsOfPicture
from fourfold.processing.pixels.stated import StatedPixels
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.cli import _described as described
    from fourfold.vision import meaning as meanings
    from fourfold.vision import preprocessing
else:  # few commands are about pictures
    described = lazy_import("fourfold.cli._described")
    meanings = lazy_import("fourfold.vision.meaning")
    preprocessing = lazy_import("fourfold.vision.preprocessing")

RAW = (".yuv", ".nv12", ".nv21", ".raw")
ORDER_CHOICE = click.Choice((*ORDERS, *YUV_ORDERS, AUTO))
ORDER_HELP = (
    "Pass pictures as bytes in this channel order; the device scales them. 'auto' takes the order "
    "and the scaling from the model's metadata.  [default: pass scaled numbers]"
)
RANGE_HELP = (
    "Range that pixels are scaled to.  [default: from the model's metadata, or as is usual for the "
    "model, or 0,1; the command prints which]"
)
MEAN_HELP = "Mean to subtract from each pixel of 0..255, one number or one for each channel."
STD_HELP = "Divisor of each pixel after --mean, one number or one for each channel."
_SCALING = ("mean", "std", "model_order")


@dataclass(frozen=True)
class PictureOptions:
    """Options of the command line about pictures; the model decides about the rest."""

    stated: StatedPixels = field(default_factory=StatedPixels)
    order: str = ""  # channel order, if the session takes bytes; '' if it takes scaled numbers
    frame: Mapping[str, Any] = field(default_factory=dict)  # other arguments of Pixels

    @property
    def is_scaled_on_device(self) -> bool:
        """True if the session takes bytes, with a scaling that `session_pixels` decides."""
        return bool(self.order) and self.order != AUTO

    def session_pixels(self, *models: ModelArguments) -> PixelsOfPicture | None:
        """Return the `pixels` option of sessions that take bytes; None for scaled numbers.

        The scaling is printed. Several models must agree about it.
        """
        if not self.is_scaled_on_device:
            return AUTO if self.order else None
        options = {str(one): one for one in map(self._device_pixels, models)}
        if len(options) > 1:
            what, why = "the models take different pictures", "; ".join(options)
            raise InputError(what, why, "state --mean and --std, or name one model at a time")
        return next(iter(options.values()))

    def _device_pixels(self, arguments: ModelArguments) -> Pixels:
        picture = described.find_picture(arguments, self.stated)
        if picture is None:
            default = Pixels(**preprocessing.DEFAULT_SCALING.numbers)
            own = replace(default, **self.stated.changes())
        else:
            own = picture.pixels
            click.echo(f"{arguments.title}: {picture}{advice(picture.told_by)}", err=True)
        scaling = {name: getattr(own, name) for name in _SCALING}
        return Pixels(order=self.order, **{**scaling, **self.frame})

    def only_pixels(self, *models: ModelArguments) -> PixelsOfPicture | None:
        """Return `session_pixels` for a command that reads no pictures; InputError for a scaling
        without an order.
        """
        if not self.order and self.stated.scales:
            what, why = (
                "--pixels is missing",
                "--range, --mean and --std scale the bytes of pictures",
            )
            raise InputError(what, why, f"add --pixels with one of {', '.join(ORDERS)}")
        return self.session_pixels(*models)


def advice(told_by: str) -> str:
    """Return how to change a scaling that is a guess."""
    return "; change it with --range LOW,HIGH" if told_by == meanings.GUESSED else ""


def picture_options(command: Command) -> Command:
    """Add --pixels, --range, --mean, --std and options of frames, passed as one `pictures`."""
    return click.option("--pixels", "order", type=ORDER_CHOICE, help=ORDER_HELP)(
        stated_options(command)
    )


def stated_options(command: Command, names: Sequence[str] = ()) -> Command:
    """Add --range, --mean, --std and options of frames, passed as one `pictures`.

    Args:
        command: The command.
        names: Arguments of Pixels to add options for; by default all.
    """

    def wrapped(
        limits: str | None,
        mean: str,
        std: str,
        frame: Mapping[str, Any],
        order: str | None = None,
        **others: Any,
    ) -> None:
        scaled: dict[str, Any] = {
            "range": parse_numbers("--range", limits, 2) if limits else None,
            "mean": parse_numbers("--mean", mean) or None,
            "std": parse_numbers("--std", std) or None,
        }
        fitted = {name: frame.get(name) for name in FITTING}
        stated = StatedPixels(**scaled, **fitted)
        if (stated.names or frame) and order == AUTO:
            what, why = "--pixels auto is not alone", "it takes all from the model's metadata"
            fix = "leave --range, --mean, --std and --fit out, or name an order"
            raise InputError(what, why, fix)
        order = order or ("rgb" if frame else "")
        command(pictures=PictureOptions(stated, order, frame), **others)

    added = frame_options(functools.wraps(command)(wrapped), names)
    for flag, name, metavar, text in (
        ("--std", "std", "S[,S,S]", STD_HELP),
        ("--mean", "mean", "M[,M,M]", MEAN_HELP),
        ("--range", "limits", "LOW,HIGH", RANGE_HELP),
    ):
        default = None if name == "limits" else ""
        added = click.option(flag, name, default=default, metavar=metavar, help=text)(added)
    return added


def pixels_options(command: Command) -> Command:
    """Add the options of pixels to a command that reads no pictures, as part of `arguments`."""

    @picture_options
    @functools.wraps(command)
    def wrapped(arguments: ModelArguments, pictures: PictureOptions, **others: Any) -> None:
        pixels = pictures.only_pixels(arguments)
        command(arguments=arguments.with_options(pixels=pixels), **others)

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
