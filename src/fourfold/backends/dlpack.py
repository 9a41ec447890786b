"""Import tensors of other packages through DLPack."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from fourfold.backends.dlpack_structures import (
    BFLOAT,
    IS_COPIED,
    KINDS,
    READ_ONLY,
    VERSION,
    PlainTensor,
    Tensor,
    VersionedTensor,
    capsule_content,
    mark_used,
)
from fourfold.errors import InputError

_DTYPES = {
    (KINDS[dtype.kind], 8 * dtype.itemsize): dtype for dtype in map(np.dtype, "?bhiqBHIQefdFD")
}


class DeviceTensor:
    """A tensor of another package; holds its memory until it is deleted."""

    def __init__(self, managed: PlainTensor | VersionedTensor) -> None:
        self._managed, self._address = managed, ctypes.addressof(managed)
        if managed.major != VERSION[0]:  # the rest of the structure may differ
            what = f"the tensor uses DLPack {managed.major}.{managed.minor}"
            why = f"versions up to {VERSION[0]} are supported"
            raise InputError(what, why, "pass it as a NumPy array, or update fourfold")
        tensor = managed.tensor
        self.data, self.start = int(tensor.data or 0), int(tensor.start)
        self.device, self.ordinal = int(tensor.device), int(tensor.ordinal)
        # Nobody would see writes to a copy that the owner created for the export.
        self.read_only = bool(managed.flags & (READ_ONLY | IS_COPIED))
        self.shape = tuple(tensor.shape[: tensor.rank])
        self.dtype = _dtype(tensor)
        strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else None
        if strides is not None and not has_contiguous_strides(self.shape, strides):
            what, why = "the tensor is not contiguous", f"its strides are {strides}"
            raise InputError(what, why, "pass a contiguous copy of it")

    @property
    def nbytes(self) -> int:
        return int(prod(self.shape)) * self.dtype.itemsize

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(self._address)


def device_tensor(given: Any, stream: int | None = None) -> DeviceTensor:
    """Import an object that has `__dlpack__`. Its owner makes the CUDA `stream` wait until the data
    is ready; -1 requests no synchronization.
    """
    name, options = type(given).__name__, {} if stream is None else {"stream": stream}
    try:
        capsule = _capsule(given, options)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        what, why = f"the {name} cannot be exported through DLPack", str(error)
        fix = "pass x.detach()" if hasattr(given, "detach") else "pass a copy of it"
        raise InputError(what, why, fix) from error
    held = capsule_content(id(capsule))
    if held is None:
        what, why = f"the {name} is not a DLPack tensor", f"its __dlpack__ returned {capsule!r}"
        raise InputError(what, why, "pass it as a NumPy array, or update its library")
    form, address = held
    mark_used(capsule, form)
    return DeviceTensor(form.structure.from_address(address))


def _capsule(given: Any, options: dict[str, Any]) -> Any:
    """Request a capsule; owners that do not know versions are asked without one."""
    try:
        return given.__dlpack__(max_version=VERSION, **options)
    except TypeError:
        return given.__dlpack__(**options)


def _dtype(tensor: Tensor) -> np.dtype:
    dtype = _DTYPES.get((tensor.kind, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        kind = f"DLPack's kind {tensor.kind} with {tensor.bits} bits"
        kind = f"bfloat{tensor.bits}" if tensor.kind == BFLOAT else kind
        what = f"the dtype {kind} is not supported"
        raise InputError(what, "NumPy has no such dtype", "convert the tensor to float32 first")
    return dtype


def has_contiguous_strides(shape: Sequence[int], strides: Sequence[int], element: int = 1) -> bool:
    """Return True if the tensor is contiguous; strides count an element as `element` units."""
    if 0 in shape:
        return True
    step = element
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
