"""Reads messages of protobuf's wire format, and checks every length: a damaged file cannot lead
astray. No schema is needed: a reader asks for fields by number, in the type that it expects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from fourfold.formats.source import Content

VARINT, FIXED64, BLOCK, FIXED32 = 0, 1, 2, 5
DEEPEST = 100  # messages inside of each other, as protobuf's own readers have it
LONGEST_VARINT = 10  # bytes of 64 bits, seven in each
_KINDS = {VARINT: "a number", FIXED64: "8 bytes", BLOCK: "a block", FIXED32: "4 bytes"}
_SIZES = {FIXED64: 8, FIXED32: 4}

# What a field holds: its wire type, and its number, or where its bytes begin and end.
Entry = tuple[int, int, int]


class Message:
    """One message: where its fields are. What they hold is looked at when it is asked for, and
    blocks are views of the file.

    A field that is not there is 0, empty or None; of one that is there twice and has one value, the
    last counts. All errors are a ValueError, which a reader makes a ModelError of.
    """

    def __init__(self, content: Content | memoryview, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise ValueError(f"its messages lie more than {DEEPEST} deep inside of each other")
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
                raise ValueError(f"byte {position - 1} of a message begins no field")
            if wire == VARINT:
                number, position = _varint(data, position)
                entry = (wire, number, 0)
            else:
                size = _SIZES.get(wire)
                if size is None:
                    size, position = _varint(data, position)
                if size > end - position:
                    raise ValueError(f"field {field} has {size} bytes, and {end - position} follow")
                entry = (wire, position, position + size)
                position += size
            self._fields.setdefault(field, []).append(entry)

    def has(self, field: int) -> bool:
        return field in self._fields

    def __iter__(self) -> Iterator[int]:
        """The numbers of the fields that are there."""
        return iter(self._fields)

    def _last(self, field: int, wire: int) -> Entry | None:
        found = self._fields.get(field)
        if found is None:
            return None
        if found[-1][0] != wire:
            _mismatch(field, found[-1][0], wire)
        return found[-1]

    def integer(self, field: int, default: int = 0) -> int:
        """A number of up to 64 bits with a sign; truth values and choices are numbers, too."""
        entry = self._last(field, VARINT)
        return default if entry is None else _signed(entry[1])

    def float32(self, field: int, default: float = 0.0) -> float:
        entry = self._last(field, FIXED32)
        return default if entry is None else float(self._view(entry, np.dtype("<f4"))[0])

    def block(self, field: int) -> memoryview | None:
        """The bytes of a field, as a view of the file; None where it is not there."""
        entry = self._last(field, BLOCK)
        return None if entry is None else self.content[entry[1] : entry[2]]

    def blocks(self, field: int) -> Iterator[memoryview]:
        for wire, start, end in self._fields.get(field, ()):
            if wire != BLOCK:
                _mismatch(field, wire, BLOCK)
            yield self.content[start:end]

    def text(self, field: int) -> str:
        """A string; bytes that are not UTF-8 become escapes, since names need only be unique."""
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
        """A list of numbers as i64, packed into blocks or one by one; unsigned ones need a view."""
        parts = [
            _unpack(self.content[start:end]) if wire == BLOCK else np.array([_signed(start)])
            for wire, start, end in self._numbers(field, VARINT)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def floats(self, field: int) -> np.ndarray:
        """A list of f32; a view of the file where it is one block."""
        return self._fixed(field, FIXED32, np.dtype("<f4"))

    def doubles(self, field: int) -> np.ndarray:
        """A list of f64; a view of the file where it is one block."""
        return self._fixed(field, FIXED64, np.dtype("<f8"))

    def _fixed(self, field: int, wire: int, dtype: np.dtype) -> np.ndarray:
        parts = [self._view(entry, dtype) for entry in self._numbers(field, wire)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])

    def _numbers(self, field: int, wire: int) -> Iterator[Entry]:
        """The entries of a list of numbers, each one of them or a block of them."""
        for entry in self._fields.get(field, ()):
            if entry[0] not in (wire, BLOCK):
                _mismatch(field, entry[0], wire)
            yield entry

    def _view(self, entry: Entry, dtype: np.dtype) -> np.ndarray:
        _, start, end = entry
        if (end - start) % dtype.itemsize:
            raise ValueError(f"{end - start} bytes are no list of numbers of {dtype.itemsize}")
        return np.frombuffer(self.content[start:end], dtype)


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = 0
    for shift in range(0, 7 * LONGEST_VARINT, 7):
        if position == len(data):
            raise ValueError("a number lies across the end")
        octet = data[position]
        position += 1
        value |= (octet & 127) << shift
        if octet < 128:
            return value & (2**64 - 1), position
    raise ValueError(f"a number at byte {position} has more than {LONGEST_VARINT} bytes")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _decode(block: memoryview) -> str:
    return str(block, "utf-8", "backslashreplace")


def _unpack(block: memoryview) -> np.ndarray:
    """All numbers of a block at once."""
    octets = np.frombuffer(block, np.uint8)
    last = np.flatnonzero(octets < 128)
    if octets.size and (not last.size or last[-1] != octets.size - 1):
        raise ValueError("a number lies across the end of a list")
    first = np.concatenate([[0], last[:-1] + 1]) if last.size else last
    lengths = last - first + 1
    longest = int(lengths.max(initial=0))
    if longest > LONGEST_VARINT:
        raise ValueError(f"a number in a list has more than {LONGEST_VARINT} bytes")
    values = np.zeros(last.size, np.uint64)
    for index in range(longest):
        reach = lengths > index
        bits = (octets[first[reach] + index] & 127).astype(np.uint64)
        values[reach] |= bits << np.uint64(7 * index)
    return values.view(np.int64)


def _mismatch(field: int, found: int, expected: int) -> NoReturn:
    raise ValueError(f"field {field} is {_KINDS[found]}, and {_KINDS[expected]} is expected")
