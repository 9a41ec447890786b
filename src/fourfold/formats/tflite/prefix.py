"""Lays out new tables of a flatbuffer in front of an old one, into which they may point."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fourfold.formats.source import Content

ALIGNMENT = 64  # weights are read in place, and the widest readers like whole cache lines


@dataclass(frozen=True)
class Existing:
    """Something of the old file, by where it begins there; None where the file leaves it out."""

    position: int | None


@dataclass(frozen=True)
class ByteField:
    """A field of one byte."""

    value: int


@dataclass(frozen=True)
class LongField:
    """A field of eight bytes."""

    value: int


@dataclass(frozen=True)
class FileOffset:
    """A byte of the old file, which the new one counts from its own start."""

    position: int


FieldValue = int | str | Existing | ByteField | LongField | FileOffset


@dataclass
class Prefix:
    """New tables one behind the other; what they name is filled in when its place is known."""

    data: bytearray = field(default_factory=lambda: bytearray(b"\0\0\0\0TFL3"))
    places: dict[str, int] = field(default_factory=dict)
    offsets: list[tuple[int, str | Existing]] = field(default_factory=list)
    absolute: list[tuple[int, int]] = field(default_factory=list)

    def mark(self, name: str, position: int) -> None:
        self.places[name] = position

    def align(self, size: int, after: int = 0) -> int:
        self.data += bytes(-(len(self.data) + after) % size)
        return len(self.data)

    def table(self, fields: Mapping[int, FieldValue]) -> int:
        """A table with eight bytes for each field, and the list of where they are before it."""
        there = {slot: value for slot, value in fields.items() if not _absent(value)}
        count = max(there, default=-1) + 1
        self.align(8, after=4 + 2 * count)
        start = len(self.data)
        entries = [8 + 8 * list(there).index(slot) if slot in there else 0 for slot in range(count)]
        self.data += struct.pack(f"<{2 + count}H", 4 + 2 * count, 8 + 8 * len(there), *entries)
        position = len(self.data)
        self.data += struct.pack("<i4x", position - start) + bytes(8 * len(there))
        for number, value in enumerate(there.values()):
            self._put(position + 8 + 8 * number, value)
        return position

    def references(self, values: Iterable[FieldValue]) -> int:
        found = list(values)
        position = self.align(4)
        self.data += struct.pack("<I", len(found)) + bytes(4 * len(found))
        for number, value in enumerate(found):
            self._put(position + 4 + 4 * number, value)
        return position

    def numbers(self, values: Iterable[int]) -> int:
        found = list(values)
        position = self.align(4)
        self.data += struct.pack(f"<I{len(found)}i", len(found), *found)
        return position

    def block(self, content: bytes) -> int:
        self.align(ALIGNMENT, after=4)
        position = len(self.data)
        self.data += struct.pack("<I", len(content)) + content
        return position

    def _put(self, position: int, value: FieldValue) -> None:
        if isinstance(value, str | Existing):
            self.offsets.append((position, value))
        elif isinstance(value, FileOffset):
            self.absolute.append((position, value.position))
        elif isinstance(value, int):
            struct.pack_into("<I", self.data, position, value)
        else:
            form = "<b" if isinstance(value, ByteField) else "<Q"
            struct.pack_into(form, self.data, position, value.value)

    def finish(self, content: Content) -> bytes:
        """All of it, with the old file behind it and every name resolved."""
        base = self.align(ALIGNMENT)
        self.offsets.append((0, "root"))
        for position, value in self.offsets:
            struct.pack_into("<I", self.data, position, self._target(value, base) - position)
        for position, place in self.absolute:
            struct.pack_into("<Q", self.data, position, base + place)
        return b"".join([self.data, memoryview(content)])

    def _target(self, value: str | Existing, base: int) -> int:
        return base + (value.position or 0) if isinstance(value, Existing) else self.places[value]


def _absent(value: FieldValue) -> bool:
    return isinstance(value, Existing) and value.position is None
