"""How much memory a model may ask for while it is read: a hostile file must not cost gigabytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fourfold.types import Shape, TensorType

MAX_ELEMENTS = 2**31
MAX_RANK = 16
FOLD_LIMIT = 64 << 20  # bytes of one result that is made from little
FOLD_TOTAL = 512 << 20  # bytes of all results beyond what unpacking the file may take
UNPACKED = 8  # numbers of four bits that become floats take eight times the room


def check_shape(shape: Shape) -> None:
    """Refuses sizes below zero, and tensors that no machine could hold or no model has."""
    if len(shape) > MAX_RANK:
        raise ValueError(f"it has {len(shape)} axes; more than {MAX_RANK} make no sense")
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape {list(shape)} has a negative size")
    if math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"its shape {list(shape)} has more than {MAX_ELEMENTS} elements")


@dataclass
class Budget:
    """How many bytes of folded constants a file may still ask for."""

    left: int

    @staticmethod
    def of(size: int) -> Budget:
        """What a file of so many bytes may ask for."""
        return Budget(UNPACKED * size + FOLD_TOTAL)

    def take(self, type: TensorType, stored: int = 0) -> bool:
        """Whether a result made from so many stored bytes may be computed now; counts it if so."""
        limit = min(self.left, max(FOLD_LIMIT, UNPACKED * stored))
        if not type.dtype.has_numpy or type.bytes > limit:
            return False
        self.left -= type.bytes
        return True
