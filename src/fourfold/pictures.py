"""Pictures as arrays of bytes, read with Pillow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fourfold.errors import InputError

MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # by the number of channels
EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


def read_picture(path: Path, channels: int, size: tuple[int, int] | None = None) -> np.ndarray:
    """The bytes of a picture, [height, width, channels]; resized to this width and height, if one
    is said.
    """
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
            found = image.convert(MODES[channels])
            found = found if size is None else found.resize(size, Image.Resampling.BILINEAR)
            return np.asarray(found).reshape(found.height, found.width, channels)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InputError(
            f"the file {path} cannot be read as a picture",
            str(error),
            "pass a picture that Pillow can open, or an array in a .npy file",
        ) from error
