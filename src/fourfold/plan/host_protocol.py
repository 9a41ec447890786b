"""Flags with which the host and a kernel that accesses host memory synchronize.

They are 32-bit numbers in a buffer of kind 'host_protocol', each in its own cache line.
"""

from __future__ import annotations

READY = 0  # host: number of copied pieces, counted over all inputs in order
DONE = 16  # kernel: 1 when all outputs are written
LATE = 32  # kernel: 1 if it continued before all pieces were copied
BYTES = 192
PIECE = 4096  # bytes of an input


def pieces(size: int) -> int:
    """Return the number of pieces in which an input of this size is copied."""
    return -(-size // PIECE)
