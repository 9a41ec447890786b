"""Limits the memory a model may use while it is read, so that a hostile file cannot exhaust it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fourfold.types import Shape, TensorType

MAX_ELEMENTS = 2**31
MAX_RANK = 16
FOLD_LIMIT = 64 << 20  # bytes of one folded constant
FOLD_TOTAL = 512 << 20  # bytes of all folded constants, beyond those unpacked from the file
UNPACK_FACTOR = 8  # 4-bit numbers expanded to float32 take eight times the space


def check_shape(shape: Shape) -> None:
    """Raise ValueError for negative sizes and for tensors larger than any real model has."""
    if len(shape) > MAX_RANK:
        raise ValueError(f"it has {len(shape)} axes; at most {MAX_RANK} are supported")
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape {list(shape)} has a negative size")
    if math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"its shape {list(shape)} has more than {MAX_ELEMENTS} elements")


@dataclass
class Budget:
    """The number of bytes of folded constants that a file may still use."""

    left: int

    @staticmethod
    def of(size: int) -> Budget:
        """Return the budget of a file of `size` bytes."""
        return Budget(UNPACK_FACTOR * size + FOLD_TOTAL)

    def take(self, type: TensorType, stored: int = 0) -> bool:
        """Take a result from the budget; return False if it does not fit.

        `stored` is the number of bytes in the file that the result is computed from.
        """
        limit = min(self.left, max(FOLD_LIMIT, UNPACK_FACTOR * stored))
        if not type.dtype.has_numpy or type.bytes > limit:
            return False
        self.left -= type.bytes
        return True
