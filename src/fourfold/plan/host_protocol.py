"""The flags by which the host and a kernel that reaches host memory tell each other how far
they are.

They are numbers of 32 bits in a buffer of kind 'host_protocol', each on a line of the
cache of its own.
"""

from __future__ import annotations

READY = 0  # host: how many pieces of the inputs are there, those of all inputs one after the other
DONE = 16  # kernel: 1 when all outputs are written
LATE = 32  # kernel: 1 when it went on before all pieces were there
BYTES = 192
PIECE = 4096  # bytes of an input


def pieces(size: int) -> int:
    """In how many pieces an input of some bytes is copied."""
    return -(-size // PIECE)
