"""Limits the memory and the work of reading a model, so that a hostile file cannot exhaust it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fourfold.types import Shape, TensorType

MAX_ELEMENTS = 2**31
MAX_RANK = 16
FOLD_LIMIT = 64 << 20  # bytes of one folded constant
FOLD_TOTAL = 128 << 20  # bytes of all folded constants, beyond those unpacked from the file
FOLD_WORK = 1 << 28  # elements that folded operators read and write, beyond those of the file
WORK_PER_BYTE = 64  # elements that folding may also read and write for each byte of the file
MAX_OPERATORS = 1 << 16  # operators of a file
FREE_NODES = 1 << 14  # nodes that any file may be converted to
BYTES_PER_NODE = 16  # bytes of a file that allow another node
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
    """What a file may still use: bytes of folded constants, elements that folding reads and
    writes, nodes and operators.
    """

    left: int
    work: int = FOLD_WORK
    nodes: int = FREE_NODES
    operators: int = MAX_OPERATORS

    @staticmethod
    def of(size: int) -> Budget:
        """Return the budget of a file of `size` bytes."""
        return Budget(
            UNPACK_FACTOR * size + FOLD_TOTAL,
            WORK_PER_BYTE * size + FOLD_WORK,
            min(size // BYTES_PER_NODE + FREE_NODES, MAX_OPERATORS),
        )

    def take_operator(self) -> bool:
        """Count an operator; return False if the file has more than real models have."""
        self.operators -= 1
        return self.operators >= 0

    def take_node(self) -> bool:
        """Count a node; return False if operators become too many nodes for a file of this size."""
        self.nodes -= 1
        return self.nodes >= 0

    def take_work(self, elements: int) -> bool:
        """Count the elements that a folded operator reads and writes; return False if too many."""
        if elements > self.work:
            return False
        self.work -= elements
        return True

    def take(self, type: TensorType, stored: int = 0) -> bool:
        """Take a result from the budget; return False if it does not fit.

        `stored` is the number of bytes in the file that the result is computed from.
        """
        limit = min(self.left, max(FOLD_LIMIT, UNPACK_FACTOR * stored))
        if not type.dtype.has_numpy or type.bytes > limit:
            return False
        self.left -= type.bytes
        return True
