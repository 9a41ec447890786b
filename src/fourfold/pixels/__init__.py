"""Pixels: how a caller's bytes become the numbers that a picture input of a model takes.

pixels: what a caller says of a picture; option: of all pictures of a model.
colors: what bytes hold; frame_fit: where a frame of another size lies in the picture.
resize: the definition of both, by NumPy.
"""

from __future__ import annotations

from fourfold.pixels.colors import ORDERS, YUV_ORDERS
from fourfold.pixels.frame_fit import FrameFit
from fourfold.pixels.option import (
    AUTO,
    PixelsOfPicture,
    PixelsOption,
    checked_pixels,
    pixels_text,
)
from fourfold.pixels.pixels import Pixels, own_pixels

__all__ = [
    "AUTO",
    "ORDERS",
    "YUV_ORDERS",
    "FrameFit",
    "Pixels",
    "PixelsOfPicture",
    "PixelsOption",
    "checked_pixels",
    "own_pixels",
    "pixels_text",
]
