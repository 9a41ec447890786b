"""Import arrays through `__cuda_array_interface__`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.players.dlpack import is_one_piece

_NAME = "__cuda_array_interface__"
_NEEDED = ("shape", "typestr", "data")
_VERSIONS = (2, 3)
_FIX_PRODUCER = "pass it through DLPack, or update its library"


class CudaArray(NamedTuple):
    """A contiguous array, and the stream that produces its elements; None if they are ready."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    read_only: bool
    stream: int | None


def read_interface(given: Any) -> CudaArray | None:
    """Read the interface of an array; None if it has none.

    Raises an InputError if kernels cannot use the array, or the interface is malformed.
    """
    interface = _interface(given)
    if interface is None:
        return None
    if interface.get("version") not in _VERSIONS:
        raise InputError(
            f"{_NAME} has version {interface.get('version')}",
            "versions 2 and 3 are supported",
            _FIX_PRODUCER,
        )
    absent = [name for name in _NEEDED if name not in interface]
    if absent:
        what, why = f"{_NAME} is incomplete", f"it has no {' and no '.join(absent)}"
        raise InputError(what, why, _FIX_PRODUCER)
    if interface.get("mask") is not None:
        what, why = "the array has a mask", "a model reads all elements"
        raise InputError(what, why, "fill the masked elements first")
    try:
        return _array(interface)
    except (TypeError, ValueError) as error:
        what = f"{_NAME} is malformed"
        raise InputError(what, str(error), _FIX_PRODUCER) from error


def _array(interface: Mapping[str, Any]) -> CudaArray:
    """Return the array; raises a TypeError or ValueError if an entry is malformed."""
    shape, dtype = tuple(map(int, interface["shape"])), _dtype(interface["typestr"])
    _check_strides(shape, interface.get("strides"), dtype)
    address, read_only = interface["data"]
    return CudaArray(
        int(address or 0), shape, dtype, bool(read_only), _stream(interface.get("stream"))
    )


def _interface(given: Any) -> Mapping[str, Any] | None:
    """Return the interface; arrays on the CPU may have the attribute and raise when it is read."""
    try:
        interface = getattr(given, _NAME, None)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    return interface if isinstance(interface, Mapping) else None


def _dtype(typestr: str) -> np.dtype:
    try:
        return np.dtype(typestr)
    except TypeError as error:
        what = f"the dtype {typestr!r} is not supported"
        fix = "convert the array to float32 first"
        raise InputError(what, "NumPy has no such dtype", fix) from error


def _check_strides(shape: Sequence[int], strides: Sequence[int] | None, dtype: np.dtype) -> None:
    """Check the strides, which count bytes; None means contiguous."""
    if strides is None:
        return
    if len(strides) != len(shape):
        what = f"{_NAME} has {len(strides)} strides for {len(shape)} axes"
        raise InputError(what, "there must be one per axis", _FIX_PRODUCER)
    if not is_one_piece(shape, strides, dtype.itemsize):
        what, why = "the array is not contiguous", f"its strides are {tuple(strides)} bytes"
        raise InputError(what, why, "pass a contiguous copy of it")


def _stream(stream: Any) -> int | None:
    if stream is None:
        return None
    if int(stream) == 0:
        what, why = (
            f"{_NAME} names stream 0",
            "it is ambiguous: the default stream of all threads or of one",
        )
        raise InputError(what, why, "name stream 1 or 2 or its own, or None if it is done")
    return int(stream)
