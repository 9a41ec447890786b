"""`__cuda_array_interface__`: what an array in CUDA's memory tells of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.players.dlpack import is_one_piece

_NAME = "__cuda_array_interface__"
_NEEDED = ("shape", "typestr", "data")
_VERSIONS = (2, 3)
_ITS_FAULT = "pass it by DLPack, or update its library"


class CudaArray(NamedTuple):
    """An array whose elements lie one after the other, and the stream that they are made in; None
    where they are there.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    read_only: bool
    stream: int | None


def read_interface(given: Any) -> CudaArray | None:
    """What an array tells; None where it tells nothing. An InputError where kernels cannot use it,
    or it is told in another way than agreed.
    """
    told = _told(given)
    if told is None:
        return None
    if told.get("version") not in _VERSIONS:
        raise InputError(
            f"{_NAME} has version {told.get('version')}", "2 and 3 are known", _ITS_FAULT
        )
    absent = [name for name in _NEEDED if name not in told]
    if absent:
        what, why = f"{_NAME} is not complete", f"it has no {' and no '.join(absent)}"
        raise InputError(what, why, _ITS_FAULT)
    if told.get("mask") is not None:
        what, why = "the array is masked in places", "a model reads all elements"
        raise InputError(what, why, "fill what is masked first")
    try:
        return _array(told)
    except (TypeError, ValueError) as error:
        what = f"{_NAME} is not what was agreed on"
        raise InputError(what, str(error), _ITS_FAULT) from error


def _array(told: Mapping[str, Any]) -> CudaArray:
    """The array; a TypeError or ValueError where an entry is of another form."""
    shape, dtype = tuple(map(int, told["shape"])), _dtype(told["typestr"])
    _check_strides(shape, told.get("strides"), dtype)
    address, read_only = told["data"]
    return CudaArray(int(address or 0), shape, dtype, bool(read_only), _stream(told.get("stream")))


def _told(given: Any) -> Mapping[str, Any] | None:
    """What an array says; that of a library on the CPU may have the name and refuse."""
    try:
        found = getattr(given, _NAME, None)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    return found if isinstance(found, Mapping) else None


def _dtype(typestr: str) -> np.dtype:
    try:
        return np.dtype(typestr)
    except TypeError as error:
        what = f"the dtype {typestr!r} is not supported"
        fix = "convert the array to float32 first"
        raise InputError(what, "NumPy has no such type", fix) from error


def _check_strides(shape: Sequence[int], strides: Sequence[int] | None, dtype: np.dtype) -> None:
    """They count bytes; none are told of an array in one piece."""
    if strides is None:
        return
    if len(strides) != len(shape):
        what = f"{_NAME} has {len(strides)} strides for {len(shape)} axes"
        raise InputError(what, "each axis has one", _ITS_FAULT)
    if not is_one_piece(shape, strides, dtype.itemsize):
        what, why = "the array is not contiguous", f"its strides are {tuple(strides)} bytes"
        raise InputError(what, why, "pass a contiguous copy of it")


def _stream(told: Any) -> int | None:
    if told is None:
        return None
    if int(told) == 0:
        what, why = (
            f"{_NAME} names stream 0",
            "that may be the default stream of all threads or of one",
        )
        raise InputError(what, why, "let it name 1 or 2 or its own stream, or None when it is done")
    return int(told)
