"""What a caller passes for one input, made an array that the model can take, or refused."""

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

ORDERS = {"RGB": "rgb", "RGBA": "rgba", "L": "gray"}  # of bytes, by the mode of a picture
LITERALS = (list, tuple, int, float, complex)  # Python's own numbers, which have no dtype


def fit_array(info: TensorInfo, given: Any, told: set[str]) -> np.ndarray:
    """An array of the input's type and of a shape that it takes, in C order; `told` has the inputs
    of which the log knows that they are converted.
    """
    picture = is_picture(given)
    if info.is_text:
        array = _texts(info, given)
    elif picture:
        array = _picture(info, given)
    else:
        array = as_array(given, f"input {info.name!r}")
    if array.dtype != info.dtype:
        array = converted(info, array, None if isinstance(given, LITERALS) else told)
    if not info.takes(array.shape):
        raise _picture_error(info, given) if picture else shape_error(info, given, array.shape)
    return np.require(array, requirements=("C", "A"))


def _texts(info: TensorInfo, given: Any) -> np.ndarray:
    """Text as bytes, each an object of its own, whichever way the caller has it."""
    if isinstance(given, str | bytes | list | tuple):
        array = np.array(given, object)
    else:
        array = as_array(given, f"input {info.name!r}")
    texts = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
    wrong = next((one for one in texts if not isinstance(one, bytes)), None)
    if wrong is not None or array.dtype.kind not in "OUS":
        kind = array.dtype if wrong is None else type(wrong).__name__
        fix = "pass an array of str or bytes: np.array(['one text', 'another'])"
        raise InputError(f"input {info.name!r} is {kind}, not text", "the model reads text", fix)
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(array.shape)


def _picture(info: TensorInfo, image: Any) -> np.ndarray:
    """The bytes of an image of Pillow: [height, width, channels], with those axes of one element
    that the input has and a picture has not.
    """
    if image.mode in ("P", "PA"):
        what = f"input {info.name!r} is a picture of mode {image.mode!r}"
        why = "its bytes are numbers of colours in a palette"
        raise InputError(what, why, "pass image.convert('RGB')")
    _check_order(info, image)
    array = np.asarray(image)
    forms = (array, array[None], array[..., None], array[None, ..., None])
    return next((one for one in forms if info.takes(one.shape)), array)


def _check_order(info: TensorInfo, image: Any) -> None:
    """Where the session scales the bytes of pictures itself, they are in an order of its own."""
    order = info.pixels.partition(",")[0]
    if not order or ORDERS.get(image.mode) == order:
        return
    mode = next((mode for mode, known in ORDERS.items() if known == order), None)
    fix = f"pass image.convert({mode!r})"
    if mode is None:
        fix = f"open the session with order={ORDERS.get(image.mode, 'rgb')!r}, or pass an array"
    what = f"input {info.name!r} is a picture of mode {image.mode!r}"
    raise InputError(what, f"the session was opened for pixels in the order {order}", fix)


def _picture_error(info: TensorInfo, image: Any) -> InputError:
    """What to do with a picture of another size, or with other channels."""
    array = np.asarray(image)
    shape: Shape = array.shape if array.ndim == 3 else (*array.shape, 1)
    wanted = info.shape[-3:]
    if len(wanted) < 3 or wanted[-1] not in MODES:
        return shape_error(info, array, array.shape, "np.asarray(image)")
    height, width, channels = wanted
    mode = f".convert({MODES[channels]!r})" if shape[-1] != channels else ""
    size = f".resize(({width}, {height}))" if shape[:-1] != wanted[:-1] else ""
    what = f"input {info.name!r} is a picture of shape {shape}, not {wanted}"
    return InputError(what, "its size or its channels are others", f"pass image{mode}{size}")
