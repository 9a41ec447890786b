"""Arrays of another type than a model's: converted where numbers stay what they are, or refused."""

from __future__ import annotations

import numpy as np

from fourfold.errors import InputError
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.support.log import Log

log = Log("runtime")
KINDS = {"f": "floats", "i": "integers", "c": "complex numbers", "b": "booleans"}


def converted(info: TensorInfo, array: np.ndarray, told: set[str] | None) -> np.ndarray:
    """The array in the type of an input. Floats become floats and integers integers, in any width
    and byte order, where each number has its place there; other kinds would have to be scaled.

    What is converted is told in the log, once for each set of names `told`; without one the array
    is made of Python's numbers, which have no type of their own, and integers become floats, too.
    """
    native = array.dtype.newbyteorder("=") if array.dtype.isnative is False else array.dtype
    if native != info.dtype:
        _check_kind(info, array, literal=told is None)
    found = _cast(info, array)
    if told is not None and info.name not in told:
        told.add(info.name)
        line = "input %r comes as %s and is converted to %s in every run: x.astype(np.%s) saves it"
        log.warning(line, info.name, array.dtype, info.dtype, info.dtype)
    return found


def _check_kind(info: TensorInfo, array: np.ndarray, literal: bool) -> None:
    given, wanted = _kind(array.dtype), _kind(info.dtype)
    if literal:
        if given == wanted or not array.size or (given, wanted) == ("i", "f"):
            return
    elif given == wanted and info.quantization is None:
        return
    raise _type_error(info, array)


def _kind(dtype: np.dtype) -> str:
    """A letter for all types between which a number stays what it is."""
    if dtype.kind == "V" and dtype.names is None:  # types of ml_dtypes: bfloat16, float8, int4
        return "f" if "float" in dtype.name else "i" if "int" in dtype.name else "V"
    return "i" if dtype.kind == "u" else dtype.kind


def _cast(info: TensorInfo, array: np.ndarray) -> np.ndarray:
    """The same numbers in another type; one that has no place there is an error."""
    if info.dtype.kind in "iu" and array.size:
        limits = np.iinfo(info.dtype)
        least, most = int(array.min()), int(array.max())
        if least < limits.min or most > limits.max:
            number = least if least < limits.min else most
            raise _range_error(info, array, f"{number} is in it")
    try:
        with np.errstate(over="raise"):
            return array.astype(info.dtype)
    except FloatingPointError as error:
        raise _range_error(info, array, "a number in it becomes infinite") from error


def _range_error(info: TensorInfo, array: np.ndarray, why: str) -> InputError:
    what = f"input {info.name!r} is {array.dtype}, and not all of it fits into {info.dtype}"
    return InputError(what, why, "check the numbers: the model cannot have been made for them")


def _type_error(info: TensorInfo, array: np.ndarray) -> InputError:
    what = f"input {info.name!r} is {array.dtype}, not {info.dtype}"
    dtype, wanted = array.dtype, f"np.{info.dtype}"
    if dtype.names is not None:
        why, fix = "an element of it has several fields", f"pass one of them: x[{dtype.names[0]!r}]"
    elif dtype.kind == "O":
        found = type(next(iter(array.flat), None)).__name__
        what = f"input {info.name!r} holds objects of Python's, not {info.dtype}"
        why, fix = f"the first is a {found}", f"make it an array of numbers: np.array(x, {wanted})"
    elif dtype.kind in "SU":
        why = "the model reads numbers"
        fix = "load what it is the name of: np.load(path), or PIL.Image.open(path)"
    elif info.quantization is not None:
        why = f"the input is quantised: it counts in steps of {info.quantization.scale[0]:g}"
        fix = f"quantise the numbers by session.inputs[...].quantization, to {wanted}"
    else:
        ours, theirs = KINDS.get(_kind(info.dtype), info.dtype), KINDS.get(_kind(dtype), dtype)
        why = f"the model reads {ours}, and how {theirs} are to be scaled is not known"
        fix = f"pass x.astype({wanted}), scaled as the model expects it"
        if dtype == np.uint8 and len(info.shape) > 2:
            fix += ", or open the session with pixels=fourfold.Pixels(...) and pass the bytes"
    return InputError(what, why, fix)
