"""Pictures as input arrays: read with Pillow, resized to the input, scaled as the model wants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.errors import InputError

MODES = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class Scaling:
    """How a pixel of 0..255 becomes a number: (pixel - mean) / std, or a line over low..high."""

    low: float = 0.0
    high: float = 1.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def apply(self, pixels: np.ndarray) -> np.ndarray:
        if self.mean or self.std:
            mean, std = self.mean or (0.0,), self.std or (1.0,)
            return (pixels - np.array(mean, np.float32)) / np.array(std, np.float32)
        return self.low + (self.high - self.low) * pixels / np.float32(255)


def read_image(
    path: Path, name: str, shape: tuple[int, ...], dtype: Any, by: Scaling
) -> np.ndarray:
    """The picture as an array for the input `name` of [batch,] height, width, channels."""
    if len(shape) not in (3, 4) or shape[-1] not in MODES:
        raise InputError(
            f"the picture {path.name} cannot become input '{name}' of shape {list(shape)}",
            "a picture fits an input of [batch, height, width, channels] with 1, 3 or 4 channels",
            "save the input as an array in a .npy file and pass that",
        )
    height, width, channels = shape[-3:]
    if any(len(part) not in (0, 1, channels) for part in (by.mean, by.std)):
        raise InputError(
            f"--mean {list(by.mean)} and --std {list(by.std)} do not fit input '{name}'",
            f"it has {channels} channels",
            f"give one number for all channels, or {channels} with commas between",
        )
    pixels = _pixels(path, (width, height), MODES[channels])
    pixels = pixels.reshape(height, width, channels).astype(np.float32)
    return np.ascontiguousarray(np.broadcast_to(_as_dtype(pixels, np.dtype(dtype), by), shape))


def _as_dtype(pixels: np.ndarray, dtype: np.dtype[Any], by: Scaling) -> np.ndarray:
    """Float inputs take the scaled pixels, whole-number inputs the pixels as they are."""
    if dtype.kind == "f":
        return by.apply(pixels).astype(dtype)
    return (pixels - 128 if dtype == np.int8 else pixels).astype(dtype)


def _pixels(path: Path, size: tuple[int, int], mode: str) -> np.ndarray:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise InputError(
            f"the picture {path.name} cannot be read",
            "Pillow is not installed",
            "pip install 'fourfold[images]', or pass the input as a .npy file",
        ) from error
    try:
        with Image.open(path) as image:
            small = image.convert(mode).resize(size, Image.Resampling.BILINEAR)
            return np.asarray(small)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InputError(
            f"the file {path} cannot be read as a picture",
            str(error),
            "pass a picture that Pillow can open, or an array in a .npy file",
        ) from error
