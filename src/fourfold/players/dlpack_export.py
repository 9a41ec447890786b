"""Memory of a device as tensors of DLPack, for other packages to take."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fourfold.players.dlpack_structures import (
    KINDS,
    PLAIN,
    VERSION,
    VERSIONED,
    Deleter,
    Destructor,
    PlainTensor,
    Tensor,
    VersionedTensor,
    held_by,
    new_capsule,
)


class Exported(NamedTuple):
    """What a tensor that was given away needs until its taker lets go of it."""

    owner: object
    managed: PlainTensor | VersionedTensor
    sizes: tuple[ctypes.Array[c_int64], ctypes.Array[c_int64]]


_given_away: dict[int, Exported] = {}


def make_capsule(
    owner: object,
    data: int,
    device: tuple[int, int],
    shape: Sequence[int],
    dtype: np.dtype,
    flags: int | None = None,
) -> Any:
    """A tensor in a device's memory for others to take; `owner` lives for as long as they do. It
    has `flags` since DLPack 1.0; None makes one for those who know no version.
    """
    form = c_int64 * max(1, len(shape))
    sizes, steps = form(*shape), form(*_strides(shape))
    tensor = Tensor(
        data=data if prod(shape) else 0,
        device=device[0],
        ordinal=device[1],
        rank=len(shape),
        kind=KINDS[dtype.kind],
        bits=8 * dtype.itemsize,
        lanes=1,
        shape=ctypes.cast(sizes, ctypes.POINTER(c_int64)),
        strides=ctypes.cast(steps, ctypes.POINTER(c_int64)),
    )
    managed = _managed(tensor, flags)
    _given_away[ctypes.addressof(managed)] = Exported(owner, managed, (sizes, steps))
    return new_capsule(managed, PLAIN if flags is None else VERSIONED, _destructor)


def _managed(tensor: Tensor, flags: int | None) -> PlainTensor | VersionedTensor:
    if flags is None:
        return PlainTensor(tensor=tensor, deleter=_deleter)
    major, minor = VERSION
    return VersionedTensor(major=major, minor=minor, deleter=_deleter, flags=flags, tensor=tensor)


def _strides(shape: Sequence[int]) -> list[int]:
    """The elements from one to the next along each axis, where all lie in one piece."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _let_go(address: int) -> None:
    _given_away.pop(address, None)


def _drop(capsule: int) -> None:
    """A capsule is gone; `capsule` is no object any more, so it gets no name. What nobody took of
    it goes with it.
    """
    held = held_by(capsule)
    if held is not None:
        _given_away.pop(held[1], None)


_deleter = Deleter(_let_go)
_destructor = Destructor(_drop)
