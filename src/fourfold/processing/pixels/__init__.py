"""Pixels: conversion of the caller's bytes to the numbers of a model's picture input.

pixels: the `Pixels` option of a picture and of a session. colors: byte orders and YUV. frame_fit:
where a frame of another size lies in the picture. resize: the NumPy reference of both.
"""

from __future__ import annotations

from fourfold.processing.pixels.colors import ORDERS, YUV_ORDERS
from fourfold.processing.pixels.frame_fit import FrameFit
from fourfold.processing.pixels.pixels import (
    AUTO,
    Pixels,
    PixelsOfPicture,
    PixelsOption,
    checked_pixels,
    metadata_pixels,
    pixels_text,
)

__all__ = [
    "AUTO",
    "ORDERS",
    "YUV_ORDERS",
    "FrameFit",
    "Pixels",
    "PixelsOfPicture",
    "PixelsOption",
    "checked_pixels",
    "metadata_pixels",
    "pixels_text",
]
