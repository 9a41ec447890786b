"""Read and resize pictures as uint8 arrays, with Pillow."""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.errors import InputError

MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # Pillow modes by number of channels
EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


def require_pillow(what: str) -> tuple[Any, Any]:
    """Import Pillow's image module and its error for files that are no images."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        fix = "pip install 'fourfold[images]', or pass the input as a .npy file"
        raise InputError(what, "Pillow is not installed", fix) from error
    return Image, UnidentifiedImageError


def resize_picture(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize a uint8 picture with Pillow, which is fast. Without Pillow, return it unchanged."""
    if frame.shape[:2] == size or find_spec("PIL") is None:
        return frame
    image_module, _ = require_pillow("a picture cannot be resized")
    flat = frame[..., 0] if frame.shape[2] == 1 else frame
    image = image_module.fromarray(flat).resize(size[::-1], image_module.Resampling.BILINEAR)
    return np.asarray(image).reshape(*size, frame.shape[2])


def read_picture(path: Path, channels: int, size: tuple[int, int] | None = None) -> np.ndarray:
    """Read a picture as uint8 [height, width, channels], optionally resized to (width, height)."""
    image_module, unidentified = require_pillow(f"the picture {path.name} cannot be read")
    try:
        with image_module.open(path) as image:
            picture = image.convert(MODES[channels])
            if size is not None:
                picture = picture.resize(size, image_module.Resampling.BILINEAR)
            return np.asarray(picture).reshape(picture.height, picture.width, channels)
    except (unidentified, OSError, image_module.DecompressionBombError) as error:
        raise InputError(
            f"the file {path} cannot be read as a picture",
            str(error),
            "pass a picture that Pillow can open, or an array in a .npy file",
        ) from error


def picture_bytes(photograph: Any, channels: int = 3) -> np.ndarray:
    """Return a photograph as uint8 [height, width, channels]."""
    if isinstance(photograph, str | PathLike):
        return read_picture(Path(photograph), channels)
    if hasattr(photograph, "convert"):  # a Pillow image
        photograph = photograph.convert("L" if channels == 1 else "RGB")
    array = np.asarray(photograph)
    if array.ndim == 2:
        array = array[..., None]
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        what = f"an array {array.dtype}{list(array.shape)} is no photograph"
        why = "a photograph is uint8 [height, width, 3]"
        raise InputError(what, why, "pass a path, a Pillow image or a uint8 array")
    if array.shape[2] == channels:
        return array
    if channels == 1:
        weights = np.array([0.299, 0.587, 0.114], np.float32)
        return np.rint(array[..., :3] @ weights).astype(np.uint8)[..., None]
    colors = np.repeat(array, 3, 2) if array.shape[2] == 1 else array[..., :3]
    opaque = np.full((*array.shape[:2], 1), 255, np.uint8)
    return colors if channels == 3 else np.concatenate([colors, opaque], 2)
