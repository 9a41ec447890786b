"""Reads messages in protobuf's wire format and checks every length.

No schema is needed: a reader asks for fields by number, in the type it expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from fourfold.formats.source import Content

VARINT, FIXED64, BLOCK, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 100  # nesting limit of messages, as in protobuf's own readers
MAX_VARINT_BYTES = 10  # bytes of a 64-bit number, with seven bits each
_KINDS = {VARINT: "a number", FIXED64: "8 bytes", BLOCK: "a block", FIXED32: "4 bytes"}
_SIZES = {FIXED64: 8, FIXED32: 4}

# Wire type of a field, and its number, or the start and end of its bytes.
Entry = tuple[int, int, int]


class Message:
    """One message: the positions of its fields.

    Values are decoded on access; blocks are views of the file. A missing field reads as 0, empty or
    None. If a field with a single value occurs more than once, the last one counts. All errors are
    ValueErrors, which readers turn into ModelErrors.
    """

    def __init__(self, content: Content | memoryview, depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"its messages are nested more than {MAX_DEPTH} deep")
        self.content = memoryview(content)
        self._depth = depth
        self._fields: dict[int, list[Entry]] = {}
        self._scan()

    def _scan(self) -> None:
        data, end, position = self.content, len(self.content), 0
        while position < end:
            tag, position = _varint(data, position)
            field, wire = tag >> 3, tag & 7
            if field == 0 or wire not in _KINDS:
                raise ValueError(f"byte {position - 1} of a message is not the start of a field")
            if wire == VARINT:
                number, position = _varint(data, position)
                entry = (wire, number, 0)
            else:
                size = _SIZES.get(wire)
                if size is None:
                    size, position = _varint(data, position)
                if size > end - position:
                    raise ValueError(
                        f"field {field} has {size} bytes, but only {end - position} follow"
                    )
                entry = (wire, position, position + size)
                position += size
            self._fields.setdefault(field, []).append(entry)

    def has(self, field: int) -> bool:
        return field in self._fields

    def __iter__(self) -> Iterator[int]:
        """Iterate over the numbers of the fields present."""
        return iter(self._fields)

    def _last(self, field: int, wire: int) -> Entry | None:
        entries = self._fields.get(field)
        if entries is None:
            return None
        if entries[-1][0] != wire:
            _mismatch(field, entries[-1][0], wire)
        return entries[-1]

    def integer(self, field: int, default: int = 0) -> int:
        """Return a signed number of up to 64 bits; booleans and enumerations are numbers, too."""
        entry = self._last(field, VARINT)
        return default if entry is None else _signed(entry[1])

    def float32(self, field: int, default: float = 0.0) -> float:
        entry = self._last(field, FIXED32)
        return default if entry is None else float(self._view(entry, np.dtype("<f4"))[0])

    def block(self, field: int) -> memoryview | None:
        """Return the bytes of a field as a view of the file; None if it is missing."""
        entry = self._last(field, BLOCK)
        return None if entry is None else self.content[entry[1] : entry[2]]

    def blocks(self, field: int) -> Iterator[memoryview]:
        for wire, start, end in self._fields.get(field, ()):
            if wire != BLOCK:
                _mismatch(field, wire, BLOCK)
            yield self.content[start:end]

    def text(self, field: int) -> str:
        """Return a string; bytes that are not UTF-8 are escaped, as names need only be unique."""
        block = self.block(field)
        return "" if block is None else _decode(block)

    def texts(self, field: int) -> tuple[str, ...]:
        return tuple(_decode(block) for block in self.blocks(field))

    def message(self, field: int) -> Message | None:
        block = self.block(field)
        return None if block is None else Message(block, self._depth + 1)

    def messages(self, field: int) -> Iterator[Message]:
        for block in self.blocks(field):
            yield Message(block, self._depth + 1)

    def integers(self, field: int) -> np.ndarray:
        """Return a list of numbers as int64, whether packed or not; unsigned ones need a view."""
        parts = [
            _unpack(self.content[start:end]) if wire == BLOCK else np.array([_signed(start)])
            for wire, start, end in self._numbers(field, VARINT)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def floats(self, field: int) -> np.ndarray:
        """Return a list of float32; a view of the file if it is one block."""
        return self._fixed(field, FIXED32, np.dtype("<f4"))

    def doubles(self, field: int) -> np.ndarray:
        """Return a list of float64; a view of the file if it is one block."""
        return self._fixed(field, FIXED64, np.dtype("<f8"))

    def _fixed(self, field: int, wire: int, dtype: np.dtype) -> np.ndarray:
        parts = [self._view(entry, dtype) for entry in self._numbers(field, wire)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])

    def _numbers(self, field: int, wire: int) -> Iterator[Entry]:
        """Yield the entries of a list of numbers; each is one number or a packed block."""
        for entry in self._fields.get(field, ()):
            if entry[0] not in (wire, BLOCK):
                _mismatch(field, entry[0], wire)
            yield entry

    def _view(self, entry: Entry, dtype: np.dtype) -> np.ndarray:
        _, start, end = entry
        if (end - start) % dtype.itemsize:
            raise ValueError(f"{end - start} bytes are not a list of {dtype.itemsize}-byte numbers")
        return np.frombuffer(self.content[start:end], dtype)


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Decode a number; return it and the position after it."""
    value = 0
    for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
        if position == len(data):
            raise ValueError("a number extends past the end")
        octet = data[position]
        position += 1
        value |= (octet & 127) << shift
        if octet < 128:
            return value & (2**64 - 1), position
    raise ValueError(f"a number at byte {position} has more than {MAX_VARINT_BYTES} bytes")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _decode(block: memoryview) -> str:
    return str(block, "utf-8", "backslashreplace")


def _unpack(block: memoryview) -> np.ndarray:
    """Decode all numbers of a packed block."""
    octets = np.frombuffer(block, np.uint8)
    last = np.flatnonzero(octets < 128)
    if octets.size and (not last.size or last[-1] != octets.size - 1):
        raise ValueError("a number extends past the end of a list")
    first = np.concatenate([[0], last[:-1] + 1]) if last.size else last
    lengths = last - first + 1
    longest = int(lengths.max(initial=0))
    if longest > MAX_VARINT_BYTES:
        raise ValueError(f"a number in a list has more than {MAX_VARINT_BYTES} bytes")
    values = np.zeros(last.size, np.uint64)
    for index in range(longest):
        reach = lengths > index
        bits = (octets[first[reach] + index] & 127).astype(np.uint64)
        values[reach] |= bits << np.uint64(7 * index)
    return values.view(np.int64)


def _mismatch(field: int, actual: int, expected: int) -> NoReturn:
    raise ValueError(f"field {field} is {_KINDS[actual]}, expected {_KINDS[expected]}")


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
