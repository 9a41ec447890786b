"""Export device memory as DLPack tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fourfold.backends.dlpack_structures import (
    KINDS,
    PLAIN,
    VERSION,
    VERSIONED,
    Deleter,
    Destructor,
    PlainTensor,
    Tensor,
    VersionedTensor,
    capsule_content,
    new_capsule,
)


class Exported(NamedTuple):
    """Objects that an exported tensor needs until its consumer releases it."""

    owner: object
    managed: PlainTensor | VersionedTensor
    sizes: tuple[ctypes.Array[c_int64], ctypes.Array[c_int64]]


_exported: dict[int, Exported] = {}


def make_capsule(
    owner: object,
    data: int,
    device: tuple[int, int],
    shape: Sequence[int],
    dtype: np.dtype,
    flags: int | None = None,
) -> Any:
    """Return a capsule with a tensor in device memory; `owner` lives as long as the consumer needs.

    `flags` exist since DLPack 1.0; None creates a capsule without a version, for older consumers.
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
    _exported[ctypes.addressof(managed)] = Exported(owner, managed, (sizes, steps))
    return new_capsule(managed, PLAIN if flags is None else VERSIONED, _destructor)


def _managed(tensor: Tensor, flags: int | None) -> PlainTensor | VersionedTensor:
    if flags is None:
        return PlainTensor(tensor=tensor, deleter=_deleter)
    major, minor = VERSION
    return VersionedTensor(major=major, minor=minor, deleter=_deleter, flags=flags, tensor=tensor)


def _strides(shape: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor, in elements."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _let_go(address: int) -> None:
    _exported.pop(address, None)


def _drop(capsule: int) -> None:
    """Release a tensor that was never taken from its capsule.

    `capsule` is being destroyed: it is an address, and must not become an object again.
    """
    held = capsule_content(capsule)
    if held is not None:
        _exported.pop(held[1], None)


_deleter = Deleter(_let_go)
_destructor = Destructor(_drop)
