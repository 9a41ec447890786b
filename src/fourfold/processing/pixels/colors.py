"""Byte layouts of frames: interleaved channels, or YUV planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fourfold.types import Shape

# For each order, the byte of a pixel that red, green and blue come from.
ORDERS = {"rgb": (0, 1, 2), "bgr": (2, 1, 0), "rgba": (0, 1, 2), "bgra": (2, 1, 0), "gray": (0,)}
# A plane of luma, then chroma for blocks of 2 x 2 pixels: interleaved U and V, interleaved V and U,
# or a plane of each.
YUV_ORDERS = ("nv12", "nv21", "yuv420")
MODEL_ORDERS = ("rgb", "bgr")

# Returns [batch, rows, columns, channels], from 0 to 255, for row and column indices.
ReadPixels = Callable[[np.ndarray, np.ndarray], np.ndarray]


class YuvMatrix(NamedTuple):
    """Coefficients of the conversion from YUV to RGB, whose results are clamped to 0 and 255.

    red = (y - black) * luma + (v - 128) * red_v, and so on.
    """

    black: float
    luma: float
    red_v: float
    green_u: float
    green_v: float
    blue_u: float


def _matrix(red: float, blue: float, full: bool) -> YuvMatrix:
    """Return the matrix for the luma weights of red and blue.

    `full` range bytes go from 0 to 255. Otherwise luma goes from 16 to 235, chroma to 240.
    """
    green, chroma = 1 - red - blue, 1.0 if full else 255 / 224
    return YuvMatrix(
        black=0.0 if full else 16.0,
        luma=1.0 if full else 255 / 219,
        red_v=2 * (1 - red) * chroma,
        green_u=-2 * blue * (1 - blue) / green * chroma,
        green_v=-2 * red * (1 - red) / green * chroma,
        blue_u=2 * (1 - blue) * chroma,
    )


MATRICES = {
    "bt601": _matrix(0.299, 0.114, full=False),
    "bt601-full": _matrix(0.299, 0.114, full=True),
    "bt709": _matrix(0.2126, 0.0722, full=False),
    "bt709-full": _matrix(0.2126, 0.0722, full=True),
}


def bytes_of_pixel(order: str) -> int:
    """Return the number of bytes that belong to one pixel alone."""
    return 1 if order == "gray" or order in YUV_ORDERS else len(order)


def frame_shape(order: str, size: tuple[int, int]) -> Shape:
    """Return the shape of an array that holds one frame of this height and width."""
    height, width = size
    if order in YUV_ORDERS:
        return (height * 3 // 2, width)
    return (height, width, bytes_of_pixel(order))


def frame_size(order: str, shape: Shape) -> tuple[int, int] | None:
    """Return height and width of the frames in a batched array, or None if the shape does not
    fit.
    """
    if min(shape, default=0) < 1:
        return None
    if order in YUV_ORDERS:
        fits = len(shape) == 3 and shape[1] % 3 == 0 and shape[2] % 2 == 0
        return (shape[1] // 3 * 2, shape[2]) if fits else None
    fits = len(shape) == 4 and shape[3] == bytes_of_pixel(order)
    return (shape[1], shape[2]) if fits else None


def describe_frames(order: str) -> str:
    """Return the shape of an array of frames as text."""
    if order in YUV_ORDERS:
        return "[batch, height * 3 / 2, width]"
    return f"[batch, height, width, {bytes_of_pixel(order)}]"


def pixel_reader(frames: np.ndarray, order: str, matrix: str) -> ReadPixels:
    """Return a function that reads pixels as floats: raw bytes, or RGB converted from YUV."""
    if order in YUV_ORDERS:
        return _yuv_reader(frames, order, MATRICES[matrix])
    return lambda rows, columns: frames[:, rows[:, None], columns].astype(np.float32)


def _yuv_reader(frames: np.ndarray, order: str, matrix: YuvMatrix) -> ReadPixels:
    batch, total_rows, width = frames.shape
    height = total_rows // 3 * 2
    colors = frames[:, height:].reshape(batch, -1)
    if order == "yuv420":
        both = colors.reshape(batch, 2, height // 2, width // 2)
        u_plane, v_plane = both[:, 0], both[:, 1]
    else:
        pairs = colors.reshape(batch, height // 2, width // 2, 2)
        first, second = pairs[..., 0], pairs[..., 1]
        u_plane, v_plane = (first, second) if order == "nv12" else (second, first)
    black, luma, red_v, green_u, green_v, blue_u = np.array(matrix, np.float32)

    def read(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        rows = rows[:, None]
        y = (frames[:, rows, columns] - black) * luma
        u, v = (
            plane[:, rows // 2, columns // 2].astype(np.float32) - np.float32(128)
            for plane in (u_plane, v_plane)
        )
        green = y + green_u * u + green_v * v
        rgb = np.stack([y + red_v * v, green, y + blue_u * u], axis=-1)
        return np.clip(rgb, 0, 255, out=rgb)

    return read
