"""PyTorch's tensors, asked directly: by DLPack it takes longer than a small model runs."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class TorchTensor(NamedTuple):
    """What a tensor on a GPU tells of itself, and the stream that its numbers are made in."""

    address: int
    ordinal: int
    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int
    stream: int

    def is_same(self, given: Any) -> bool:
        """Whether a tensor that told all this still would, and so would the stream."""
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
    """A plain tensor on a GPU whose numbers lie one after the other; None for all others, of which
    DLPack tells more, or why they cannot be taken.
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
    """NumPy's name for one of PyTorch's types; None where it has none."""
    try:
        return np.dtype(str(given).removeprefix("torch."))
    except TypeError:
        return None


def _current_stream(torch: Any, ordinal: int) -> int:
    """What compilers for PyTorch ask, too: an object for the stream would take longer."""
    ask = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    found = torch.cuda.current_stream(ordinal).cuda_stream if ask is None else ask(ordinal)
    return int(found)
