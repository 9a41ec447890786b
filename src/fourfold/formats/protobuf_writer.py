"""Writes messages in protobuf's wire format; large blocks are copied only once, at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.protobuf import BLOCK, FIXED32, VARINT

Chunk = bytes | memoryview


@dataclass
class MessageWriter:
    """A message built field by field, in the order of the calls."""

    chunks: list[Chunk] = field(default_factory=list)
    size: int = 0

    def integer(self, number: int, value: int) -> MessageWriter:
        return self._put(_tag(number, VARINT), varint(value))

    def integers(self, number: int, values: Iterable[int]) -> MessageWriter:
        """Add a packed list of numbers."""
        return self.block(number, b"".join(map(varint, values)))

    def float32(self, number: int, value: float) -> MessageWriter:
        return self._put(_tag(number, FIXED32), np.float32(value).astype("<f4").tobytes())

    def floats(self, number: int, values: Sequence[float] | np.ndarray) -> MessageWriter:
        """Add a packed list of float32."""
        return self.block(number, np.asarray(values, "<f4").tobytes())

    def text(self, number: int, value: str) -> MessageWriter:
        return self.block(number, value.encode())

    def texts(self, number: int, values: Iterable[str]) -> MessageWriter:
        for value in values:
            self.text(number, value)
        return self

    def block(self, number: int, content: Chunk) -> MessageWriter:
        """Add bytes, or an already serialized message."""
        return self._put(_tag(number, BLOCK), varint(len(content)), content)

    def message(self, number: int, inner: MessageWriter) -> MessageWriter:
        return self._put(_tag(number, BLOCK), varint(inner.size), *inner.chunks)

    def finish(self) -> bytes:
        """Return the serialized message."""
        return b"".join(self.chunks)

    def _put(self, *chunks: Chunk) -> MessageWriter:
        self.chunks += chunks
        self.size += sum(map(len, chunks))
        return self


def varint(value: int) -> bytes:
    """Encode a number of up to 64 bits; a negative one takes ten bytes."""
    value &= 2**64 - 1
    octets = bytearray()
    while value > 127:
        octets.append(value & 127 | 128)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)
