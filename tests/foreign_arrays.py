"""Fake arrays of other libraries, with one class for each protocol to export memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


class ArrayMethod:
    """Has only `__array__`, like PyTorch tensors and JAX arrays."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array if dtype is None else self.array.astype(dtype)

    def __iter__(self) -> Any:
        raise AssertionError("an array is never iterated")

    def __len__(self) -> int:
        raise AssertionError("an array is never counted")


class ArrayInterface:
    """Has only `__array_interface__`."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


class Dlpack:
    """Supports only DLPack, with a device type."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class CudaArray:
    """An array in CUDA memory without DLPack, such as Numba's."""

    shape, dtype = (2, 4), np.dtype(np.float32)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (2, 4), "typestr": "<f4", "data": (0x7F0000000000, False), "version": 3}

    def copy_to_host(self) -> np.ndarray:
        return np.zeros((2, 4), np.float32)


class ElementsOnly:
    """An array that returns only single elements, like pyopencl's."""

    shape, dtype = (2, 4), np.dtype(np.float32)

    def __getitem__(self, place: Any) -> Any:
        raise AssertionError("an array is never read element by element")

    def __len__(self) -> int:
        return 2

    def get(self) -> np.ndarray:
        return np.zeros((2, 4), np.float32)


class Tensor:
    """A PyTorch tensor in a state that NumPy cannot read."""

    def __init__(self, refusal: str, **state: Any) -> None:
        self.refusal, self.shape = refusal, (2, 4)
        self.requires_grad = state.get("requires_grad", False)
        self.device = SimpleNamespace(type=state.get("device", "cpu"))
        self.layout = state.get("layout", "torch.strided")
        self.dtype = state.get("dtype", "torch.float32")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise RuntimeError(self.refusal)

    def detach(self) -> Tensor:
        return self
