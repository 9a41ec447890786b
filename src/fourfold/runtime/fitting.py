"""Conversion of a caller's object to an array that a model input accepts."""

from __future__ import annotations

from typing import Any

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pictures import MODES
from fourfold.runtime.arrays import as_array, is_picture
from fourfold.runtime.conversions import converted
from fourfold.runtime.shape_hints import shape_error
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.types import Shape

ORDERS = {"RGB": "rgb", "RGBA": "rgba", "L": "gray"}  # channel orders by Pillow mode
LITERALS = (list, tuple, int, float, complex)  # Python's own numbers, which have no dtype


def fit_array(info: TensorInfo, value: Any, logged: set[str]) -> np.ndarray:
    """Return an array in C order, of the input's dtype and a shape that it accepts. Raises an
    InputError if that is not possible. `logged` has the inputs whose conversion was logged.
    """
    picture = is_picture(value)
    if info.is_text:
        array = _texts(info, value)
    elif picture:
        array = _picture(info, value)
    else:
        array = as_array(value, f"input {info.name!r}")
    if array.dtype != info.dtype:
        array = converted(info, array, None if isinstance(value, LITERALS) else logged)
    if not info.takes(array.shape):
        raise _picture_error(info, value) if picture else shape_error(info, value, array.shape)
    return np.require(array, requirements=("C", "A"))


def _texts(info: TensorInfo, value: Any) -> np.ndarray:
    """Return text as an array of bytes objects."""
    if isinstance(value, str | bytes | list | tuple):
        array = np.array(value, object)
    else:
        array = as_array(value, f"input {info.name!r}")
    texts = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
    wrong = next((one for one in texts if not isinstance(one, bytes)), None)
    if wrong is not None or array.dtype.kind not in "OUS":
        kind = array.dtype if wrong is None else type(wrong).__name__
        fix = "pass an array of str or bytes: np.array(['one text', 'another'])"
        raise InputError(f"input {info.name!r} is {kind}, not text", "the model reads text", fix)
    result = np.empty(len(texts), object)
    result[:] = texts
    return result.reshape(array.shape)


def _picture(info: TensorInfo, image: Any) -> np.ndarray:
    """Return the bytes of a Pillow image as [height, width, channels], with the axes of size 1 that
    the input has in addition.
    """
    if image.mode in ("P", "PA"):
        what = f"input {info.name!r} is an image of mode {image.mode!r}"
        why = "its bytes are indices into a palette"
        raise InputError(what, why, "pass image.convert('RGB')")
    _check_order(info, image)
    array = np.asarray(image)
    forms = (array, array[None], array[..., None], array[None, ..., None])
    return next((one for one in forms if info.takes(one.shape)), array)


def _check_order(info: TensorInfo, image: Any) -> None:
    """Raise an InputError if an image has another channel order than the session was opened for."""
    order = info.pixels.partition(",")[0]
    if not order or ORDERS.get(image.mode) == order:
        return
    mode = next((mode for mode, known in ORDERS.items() if known == order), None)
    fix = f"pass image.convert({mode!r})"
    if mode is None:
        fix = f"open the session with order={ORDERS.get(image.mode, 'rgb')!r}, or pass an array"
    what = f"input {info.name!r} is an image of mode {image.mode!r}"
    raise InputError(what, f"the session was opened for pixels in {order} order", fix)


def _picture_error(info: TensorInfo, image: Any) -> InputError:
    """Return the error for an image with another size or other channels than the input."""
    array = np.asarray(image)
    shape: Shape = array.shape if array.ndim == 3 else (*array.shape, 1)
    expected = info.shape[-3:]
    if len(expected) < 3 or expected[-1] not in MODES:
        return shape_error(info, array, array.shape, "np.asarray(image)")
    height, width, channels = expected
    mode = f".convert({MODES[channels]!r})" if shape[-1] != channels else ""
    size = f".resize(({width}, {height}))" if shape[:-1] != expected[:-1] else ""
    what = f"input {info.name!r} is an image of shape {shape}, not {expected}"
    return InputError(what, "its size or its number of channels differs", f"pass image{mode}{size}")
