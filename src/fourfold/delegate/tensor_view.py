"""TensorView: a tensor in the memory of an interpreter, as an array."""

from __future__ import annotations

import ctypes

import numpy as np

from fourfold.delegate.claimable_graph import BorderTensor
from fourfold.delegate.structs import TYPES, TfLiteTensor, read_numbers
from fourfold.errors import DeviceError

NOWHERE = -1  # an address that no tensor has


class TensorView:
    """A tensor of the interpreter as an array. The view is kept while the memory stays there."""

    def __init__(self, border: BorderTensor) -> None:
        self.border = border
        self._tensor = TfLiteTensor()
        self._array = np.empty(0)
        self.forget()

    def forget(self) -> None:
        """Look again next time: the shape may have changed."""
        self._base: int | None = NOWHERE
        self._data: int | None = NOWHERE

    def array(self, base: int) -> np.ndarray:
        """The tensor's elements; `base` is where the interpreter's tensors begin."""
        if base != self._base:
            self._base, self._data = base, NOWHERE
            place = base + self.border.number * ctypes.sizeof(TfLiteTensor)
            self._tensor = TfLiteTensor.from_address(place)
        data = self._tensor.data
        if data != self._data:
            self._array = self._view()
            self._data = data
        return self._array

    def _view(self) -> np.ndarray:
        tensor, shape = self._tensor, read_numbers(self._tensor.dims)
        found = TYPES.get(tensor.type)
        kind = np.dtype(np.uint8) if found is None or not found.has_numpy else found.numpy
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
