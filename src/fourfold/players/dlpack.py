"""Tensors of other packages by DLPack: what memory of a device they have, and our own as such."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fourfold.errors import InputError

_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # of numbers
_NAME, _USED = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    """DLManagedTensor, with its DLTensor written out."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Tensor))
_Tensor._fields_ = [
    ("data", c_void_p),
    ("device", c_int32),
    ("ordinal", c_int32),
    ("rank", c_int32),
    ("kind", c_uint8),
    ("bits", c_uint8),
    ("lanes", c_uint16),
    ("shape", ctypes.POINTER(c_int64)),
    ("strides", ctypes.POINTER(c_int64)),
    ("start", c_uint64),
    ("context", c_void_p),
    ("deleter", _Deleter),
]
_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_python.PyCapsule_New.argtypes = [c_void_p, ctypes.c_char_p, _Destructor]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
# Capsules by their addresses: one that is being destroyed must not be held as an object again.
_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


class DeviceTensor:
    """A tensor of somebody else, whose memory is held for as long as this is."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed
        tensor = managed.contents
        self.data, self.start = int(tensor.data or 0), int(tensor.start)
        self.device, self.ordinal = int(tensor.device), int(tensor.ordinal)
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
        if self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)


def device_kind(given: Any) -> int | None:
    """What kind of device has the memory of an object; None where it does not speak DLPack, or has
    no memory that it could give.
    """
    try:
        return int(given.__dlpack_device__()[0])
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None


def device_tensor(given: Any, stream: int | None = None) -> DeviceTensor:
    """What an object with `__dlpack__` has. Its owner makes a `stream` of CUDA wait until it is
    there; -1 asks for nothing of the kind.
    """
    try:
        capsule = given.__dlpack__() if stream is None else given.__dlpack__(stream=stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        what, why = f"the {type(given).__name__} does not give its memory away", str(error)
        fix = "pass x.detach()" if hasattr(given, "detach") else "pass a copy of it"
        raise InputError(what, why, fix) from error
    pointer = _pointer(id(capsule), _NAME)
    _python.PyCapsule_SetName(capsule, _USED)
    return DeviceTensor(ctypes.cast(pointer, ctypes.POINTER(_Tensor)))


def _dtype(tensor: Any) -> np.dtype:
    letters = {number: letter for letter, number in _KINDS.items()}
    letter = letters.get(tensor.kind)
    if letter is None or tensor.lanes != 1 or tensor.bits % 8:
        what = f"numbers of DLPack's kind {tensor.kind} with {tensor.bits} bits are not understood"
        raise InputError(what, "NumPy has no such type", "convert the tensor to float32 first")
    return np.dtype(f"{letter}{tensor.bits // 8}" if letter != "b" else "?")


def is_one_piece(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie one after the other, by strides that count elements."""
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


class Exported(NamedTuple):
    """What a tensor that was given away needs until its taker lets go of it."""

    owner: object
    tensor: _Tensor
    shape: ctypes.Array[c_int64]
    strides: ctypes.Array[c_int64]


_given_away: dict[int, Exported] = {}


def make_capsule(
    owner: object, data: int, device: tuple[int, int], shape: Sequence[int], dtype: np.dtype
) -> Any:
    """A tensor in a device's memory for others to take; `owner` lives for as long as they do."""
    form = c_int64 * max(1, len(shape))
    sizes, steps = form(*shape), form(*_strides(shape))
    tensor = _Tensor(
        data=data,
        device=device[0],
        ordinal=device[1],
        rank=len(shape),
        kind=_KINDS[dtype.kind],
        bits=8 * dtype.itemsize,
        lanes=1,
        shape=ctypes.cast(sizes, ctypes.POINTER(c_int64)),
        strides=ctypes.cast(steps, ctypes.POINTER(c_int64)),
        deleter=_deleter,
    )
    _given_away[ctypes.addressof(tensor)] = Exported(owner, tensor, sizes, steps)
    return _python.PyCapsule_New(ctypes.addressof(tensor), _NAME, _destructor)


def _strides(shape: Sequence[int]) -> list[int]:
    """The elements from one to the next along each axis, where all lie in one piece."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _let_go(tensor: Any) -> None:
    _given_away.pop(ctypes.addressof(tensor.contents), None)


def _drop(capsule: int) -> None:
    """A capsule that nobody took is gone; `capsule` is no object any more, so it gets no name."""
    if _is_valid(capsule, _NAME):
        _given_away.pop(_pointer(capsule, _NAME), None)


_deleter = _Deleter(_let_go)
_destructor = _Destructor(_drop)
