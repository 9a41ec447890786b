"""Read PyTorch tensors directly: through DLPack it takes longer than a small model runs."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class TorchTensor(NamedTuple):
    """Properties of a tensor on a GPU, and the stream that produces its elements."""

    address: int
    ordinal: int
    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int
    stream: int

    def is_same(self, given: Any) -> bool:
        """Return True if a tensor still has these properties, and its stream is the same."""
        return (
            given.data_ptr() == self.address
            and given.shape == self.shape
            and _dtype(given.dtype) == self.dtype
            and given.is_contiguous()
            and not given.requires_grad
            and not given.is_neg()
            and _current_stream(sys.modules["torch"], self.ordinal) == self.stream
        )


def torch_tensor(given: Any) -> TorchTensor | None:
    """Return the properties of a plain contiguous tensor on a GPU.

    None for all others, which DLPack supports or rejects with a reason.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or type(given) is not getattr(torch, "Tensor", None) or not given.is_cuda:
        return None
    dtype = _dtype(given.dtype)
    lazy = given.requires_grad or given.is_neg() or not given.is_contiguous()
    if dtype is None or lazy:
        return None
    ordinal = given.get_device()
    facts = (given.data_ptr(), ordinal, tuple(given.shape), dtype, given.nbytes)
    return TorchTensor(*facts, _current_stream(torch, ordinal))


@cache
def _dtype(given: Any) -> np.dtype | None:
    """Return the NumPy dtype of a PyTorch dtype; None if there is none."""
    try:
        return np.dtype(str(given).removeprefix("torch."))
    except TypeError:
        return None


def _current_stream(torch: Any, ordinal: int) -> int:
    """Return the current stream with the internal call that PyTorch's compilers use: creating a
    stream object takes longer.
    """
    ask = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    handle = torch.cuda.current_stream(ordinal).cuda_stream if ask is None else ask(ordinal)
    return int(handle)
