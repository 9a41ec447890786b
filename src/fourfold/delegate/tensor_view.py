"""TensorView: a tensor in an interpreter's memory, as an array."""

from __future__ import annotations

import ctypes

import numpy as np

from fourfold.delegate.claimable_graph import BorderTensor
from fourfold.delegate.structs import TYPES, TfLiteTensor, read_numbers
from fourfold.errors import DeviceError

NO_ADDRESS = -1


class TensorView:
    """A tensor of the interpreter as an array, cached while its memory does not move."""

    def __init__(self, border: BorderTensor) -> None:
        self.border = border
        self._tensor = TfLiteTensor()
        self._array = np.empty(0)
        self.forget()

    def forget(self) -> None:
        """Drop the cached view, since the shape may have changed."""
        self._base: int | None = NO_ADDRESS
        self._data: int | None = NO_ADDRESS

    def array(self, base: int) -> np.ndarray:
        """Return the tensor's elements; `base` is the address of the interpreter's tensor array."""
        if base != self._base:
            self._base, self._data = base, NO_ADDRESS
            address = base + self.border.number * ctypes.sizeof(TfLiteTensor)
            self._tensor = TfLiteTensor.from_address(address)
        data = self._tensor.data
        if data != self._data:
            self._array = self._view()
            self._data = data
        return self._array

    def _view(self) -> np.ndarray:
        tensor, shape = self._tensor, read_numbers(self._tensor.dims)
        dtype = TYPES.get(tensor.type)
        kind = np.dtype(np.uint8) if dtype is None or not dtype.has_numpy else dtype.numpy
        if not tensor.bytes:
            return np.empty(shape, kind)
        if not tensor.data:
            raise DeviceError(
                f"tensor '{self.border.name}' has no memory",
                "the interpreter has not allocated it",
                "call allocate_tensors() before invoke()",
            )
        memory = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
        return np.frombuffer(memory, kind).reshape(shape)
