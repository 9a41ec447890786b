"""Conversion of arrays to a model's dtype if every number is preserved, and errors otherwise."""

from __future__ import annotations

import numpy as np

from fourfold.errors import InputError
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.support.log import Log

log = Log("runtime")
KINDS = {"f": "floats", "i": "integers", "c": "complex numbers", "b": "booleans"}


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
