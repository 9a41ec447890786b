"""Tensors of other packages by DLPack: what memory of a device they have."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from fourfold.errors import InputError
from fourfold.players.dlpack_structures import (
    BFLOAT,
    IS_COPIED,
    KINDS,
    READ_ONLY,
    VERSION,
    PlainTensor,
    Tensor,
    VersionedTensor,
    held_by,
    mark_used,
)

_DTYPES = {
    (KINDS[dtype.kind], 8 * dtype.itemsize): dtype for dtype in map(np.dtype, "?bhiqBHIQefdFD")
}


class DeviceTensor:
    """A tensor of somebody else, whose memory is held for as long as this is."""

    def __init__(self, managed: PlainTensor | VersionedTensor) -> None:
        self._managed, self._address = managed, ctypes.addressof(managed)
        if managed.major != VERSION[0]:  # nothing else of it may be looked at
            what = f"the tensor is of DLPack {managed.major}.{managed.minor}"
            why = f"versions up to {VERSION[0]} are known"
            raise InputError(what, why, "pass it as an array of the host, or update fourfold")
        tensor = managed.tensor
        self.data, self.start = int(tensor.data or 0), int(tensor.start)
        self.device, self.ordinal = int(tensor.device), int(tensor.ordinal)
        # What is written to a copy that the owner made for us, nobody ever sees.
        self.read_only = bool(managed.flags & (READ_ONLY | IS_COPIED))
        self.shape = tuple(tensor.shape[: tensor.rank])
        self.dtype = _dtype(tensor)
        strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else None
        if strides is not None and not is_one_piece(self.shape, strides):
            what, why = "the tensor does not lie in one piece", f"its strides are {strides}"
            raise InputError(what, why, "pass a contiguous copy of it")

    @property
    def nbytes(self) -> int:
        return int(prod(self.shape)) * self.dtype.itemsize

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(self._address)


def device_tensor(given: Any, stream: int | None = None) -> DeviceTensor:
    """What an object with `__dlpack__` has. Its owner makes a `stream` of CUDA wait until it is
    there; -1 asks for nothing of the kind.
    """
    name, asked = type(given).__name__, {} if stream is None else {"stream": stream}
    try:
        capsule = _capsule(given, asked)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        what, why = f"the {name} does not give its memory away", str(error)
        fix = "pass x.detach()" if hasattr(given, "detach") else "pass a copy of it"
        raise InputError(what, why, fix) from error
    held = held_by(id(capsule))
    if held is None:
        what, why = f"the {name} gives no tensor of DLPack", f"it gives {capsule!r}"
        raise InputError(what, why, "pass it as an array of the host, or update its library")
    form, address = held
    mark_used(capsule, form)
    return DeviceTensor(form.structure.from_address(address))


def _capsule(given: Any, asked: dict[str, Any]) -> Any:
    """What an owner gives; who knows nothing of versions is asked without one."""
    try:
        return given.__dlpack__(max_version=VERSION, **asked)
    except TypeError:
        return given.__dlpack__(**asked)


def _dtype(tensor: Tensor) -> np.dtype:
    found = _DTYPES.get((tensor.kind, tensor.bits))
    if found is None or tensor.lanes != 1:
        kind = f"DLPack's kind {tensor.kind} with {tensor.bits} bits"
        kind = f"bfloat{tensor.bits}" if tensor.kind == BFLOAT else kind
        what = f"numbers of {kind} are not understood"
        raise InputError(what, "NumPy has no such type", "convert the tensor to float32 first")
    return found


def is_one_piece(shape: Sequence[int], strides: Sequence[int], element: int = 1) -> bool:
    """Whether elements lie one after the other, by strides in which an `element` counts so much."""
    if 0 in shape:
        return True
    step = element
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
