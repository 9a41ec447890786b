"""Conversion of a caller's object to an array that a model input accepts.

The dtype is converted if every number is preserved. Errors suggest the expression that would make
an array fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pictures import MODES
from fourfold.runtime.arrays import as_array, is_picture
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.support.log import Log
from fourfold.types import Shape

log = Log("runtime")

ORDERS = {"RGB": "rgb", "RGBA": "rgba", "L": "gray"}  # channel orders by Pillow mode
LITERALS = (list, tuple, int, float, complex)  # Python's own numbers, which have no dtype
KINDS = {"f": "floats", "i": "integers", "c": "complex numbers", "b": "booleans"}
BATCH = "the batch axis is missing"
FIRST, LAST = (
    "its channels come first, the model's last",
    "its channels come last, the model's first",
)


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
    check_limits(info, array)
    return np.require(array, requirements=("C", "A"))


def check_limits(info: TensorInfo, array: np.ndarray) -> None:
    """Raise an InputError if an index is out of range, or an integer has too many bits."""
    number = info.number_outside(array)
    if number is None or info.limits is None:
        return
    low, high = info.limits
    why = f"the model uses its numbers as indices from {low} to {high}"
    fix = "check the numbers, such as the vocabulary of the tokenizer"
    if (low, high) == (-(2**31), 2**31 - 1):
        why = f"the device computes with 32 bits, from {low} to {high}"
        fix = "pass smaller numbers, or open the model with device='cpu'"
    raise InputError(f"input {info.name!r} contains {number}", why, fix)


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


def converted(info: TensorInfo, array: np.ndarray, logged: set[str] | None) -> np.ndarray:
    """Return an array in the dtype of an input.

    Floats convert to floats and integers to integers, in any width and byte order, if all numbers
    are in range. Other conversions would need a scale and raise an InputError.

    A conversion is logged once per input; `logged` collects the names. None means that the array
    was made from Python numbers, which have no dtype: integers then also convert to floats, and
    nothing is logged.
    """
    native = array.dtype.newbyteorder("=") if array.dtype.isnative is False else array.dtype
    if native != info.dtype:
        _check_kind(info, array, literal=logged is None)
    result = _cast(info, array)
    if logged is not None and info.name not in logged:
        logged.add(info.name)
        line = "input %r comes as %s and is converted to %s in every run: pass x.astype(np.%s)"
        log.warning(line, info.name, array.dtype, info.dtype, info.dtype)
    return result


def _check_kind(info: TensorInfo, array: np.ndarray, literal: bool) -> None:
    kind, expected = _kind(array.dtype), _kind(info.dtype)
    if literal:
        if kind == expected or not array.size or (kind, expected) == ("i", "f"):
            return
    elif kind == expected and info.quantization is None:
        return
    raise _type_error(info, array)


def _kind(dtype: np.dtype) -> str:
    """Return a letter that is equal for dtypes between which numbers are preserved."""
    if dtype.kind == "V" and dtype.names is None:  # types of ml_dtypes: bfloat16, float8, int4
        return "f" if "float" in dtype.name else "i" if "int" in dtype.name else "V"
    return "i" if dtype.kind == "u" else dtype.kind


def _cast(info: TensorInfo, array: np.ndarray) -> np.ndarray:
    """Return the array in the dtype of an input. Raises an InputError if a number is out of
    range.
    """
    if info.dtype.kind in "iu" and array.size:
        limits = np.iinfo(info.dtype)
        smallest, largest = int(array.min()), int(array.max())
        if smallest < limits.min or largest > limits.max:
            number = smallest if smallest < limits.min else largest
            raise _range_error(info, array, f"it contains {number}")
    try:
        with np.errstate(over="raise"):
            return array.astype(info.dtype)
    except FloatingPointError as error:
        raise _range_error(info, array, "a number in it overflows to infinity") from error


def _range_error(info: TensorInfo, array: np.ndarray, why: str) -> InputError:
    what = (
        f"input {info.name!r} is {array.dtype}, and some numbers are out of range for {info.dtype}"
    )
    return InputError(what, why, "check the numbers: the model cannot represent them")


def _type_error(info: TensorInfo, array: np.ndarray) -> InputError:
    what = f"input {info.name!r} is {array.dtype}, not {info.dtype}"
    dtype, target = array.dtype, f"np.{info.dtype}"
    if dtype.names is not None:
        why, fix = "its elements have several fields", f"pass one field: x[{dtype.names[0]!r}]"
    elif dtype.kind == "O":
        first = type(next(iter(array.flat), None)).__name__
        what = f"input {info.name!r} holds Python objects, not {info.dtype}"
        why, fix = f"the first is a {first}", f"pass an array of numbers: np.array(x, {target})"
    elif dtype.kind in "SU":
        why = "the model reads numbers"
        fix = "if it is a path, load the file: np.load(path), or PIL.Image.open(path)"
    elif info.quantization is not None:
        why = f"the input is quantized with a step of {info.quantization.scale[0]:g}"
        fix = f"quantize the numbers with session.inputs[...].quantization, to {target}"
    else:
        ours, theirs = KINDS.get(_kind(info.dtype), info.dtype), KINDS.get(_kind(dtype), dtype)
        why = f"the model reads {ours}, and the scale of {theirs} is unknown"
        fix = f"pass x.astype({target}), scaled as the model expects"
        if dtype == np.uint8 and len(info.shape) > 2:
            fix += ", or open the session with pixels=fourfold.Pixels(...) and pass the bytes"
    return InputError(what, why, fix)


class Rearranged(NamedTuple):
    """A change that makes an array fit: the expression to append, the shape it gives, and the
    cause.
    """

    text: str
    shape: Shape
    why: str


def shape_error(info: TensorInfo, given: Any, shape: Shape, called: str = "x") -> InputError:
    """Return the error for an array of the wrong shape. `called` is the expression for the array in
    the suggested fix.
    """
    what = f"input {info.name!r} has shape {shape}, not {info.shape}"
    hint = next((one for one in _rearranged(info, given, shape) if info.takes(one.shape)), None)
    if hint is not None:
        return InputError(what, hint.why, f"pass {called}{hint.text}")
    why = f"the model has no dynamic size that allows it: {info.signature or info.shape}"
    fix = f"reshape the array, or the model: session.resize({{{info.name!r}: {shape}}})"
    return InputError(what, why, fix)


def _rearranged(info: TensorInfo, given: Any, shape: Shape) -> Iterator[Rearranged]:
    """Yield possible changes, the most likely first."""
    permute = "permute" if hasattr(given, "permute") else "transpose"
    yield Rearranged("[None]", (1, *shape), BATCH)
    if shape:
        more = "it has one axis more than the model"
        why = more if shape[0] == 1 else f"{more}, which runs one of the {shape[0]} at a time"
        yield Rearranged("[0]", shape[1:], why)
    yield Rearranged("[..., None]", (*shape, 1), "the channel axis is missing")
    yield Rearranged("[None, ..., None]", (1, *shape, 1), f"{BATCH}, and the channel axis")
    for axes, why in _channel_moves(len(shape)):
        moved = tuple(shape[axis] for axis in axes)
        text = f".{permute}{axes}"
        yield Rearranged(text, moved, why)
        yield Rearranged(f"{text}[None]", (1, *moved), f"{BATCH}, and {why}")
    flat = len(shape) == 1 and math.prod(shape) == math.prod(info.shape)
    if flat or _longer(shape) == _longer(info.shape):
        yield Rearranged(f".reshape({info.shape})", info.shape, "its axes differ")


def _channel_moves(rank: int) -> Sequence[tuple[Shape, str]]:
    """Return permutations that move channels from first to last and back, after the batch axis if
    there is one.
    """
    if rank < 3:
        return ()
    axes = tuple(range(rank))
    batch, inner = (axes[:1], axes[1:]) if rank > 3 else ((), axes)
    return (((*batch, *inner[1:], inner[0]), FIRST), ((*batch, inner[-1], *inner[:-1]), LAST))


def _longer(shape: Shape) -> Shape:
    """Return the sizes that are not 1."""
    return tuple(size for size in shape if size != 1)
