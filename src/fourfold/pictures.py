"""Pictures as arrays of bytes, read with Pillow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fourfold.errors import InputError

MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # by the number of channels
EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


def read_picture(path: Path, size: tuple[int, int], channels: int) -> np.ndarray:
    """The bytes of a picture, resized to this width and height: [height, width, channels]."""
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
            small = image.convert(MODES[channels]).resize(size, Image.Resampling.BILINEAR)
            return np.asarray(small).reshape(size[1], size[0], channels)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InputError(
            f"the file {path} cannot be read as a picture",
            str(error),
            "pass a picture that Pillow can open, or an array in a .npy file",
        ) from error
