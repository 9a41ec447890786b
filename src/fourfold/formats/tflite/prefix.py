"""Writes new flatbuffer tables in front of an existing file, which they can refer to."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fourfold.formats.source import Content

ALIGNMENT = 64  # weights are read in place; this is a cache line


@dataclass(frozen=True)
class Existing:
    """A part of the old file, by its position there; None if the file does not have it."""

    position: int | None


@dataclass(frozen=True)
class ByteField:
    """A one-byte field."""

    value: int


@dataclass(frozen=True)
class LongField:
    """An eight-byte field."""

    value: int


@dataclass(frozen=True)
class FileOffset:
    """An offset into the old file, stored relative to the start of the new one."""

    position: int


FieldValue = int | str | Existing | ByteField | LongField | FileOffset


@dataclass
class Prefix:
    """New tables in sequence; references are resolved at the end."""

    data: bytearray = field(default_factory=lambda: bytearray(b"\0\0\0\0TFL3"))
    positions: dict[str, int] = field(default_factory=dict)
    offsets: list[tuple[int, str | Existing]] = field(default_factory=list)
    absolute: list[tuple[int, int]] = field(default_factory=list)

    def mark(self, name: str, position: int) -> None:
        self.positions[name] = position

    def align(self, size: int, after: int = 0) -> int:
        self.data += bytes(-(len(self.data) + after) % size)
        return len(self.data)

    def table(self, fields: Mapping[int, FieldValue]) -> int:
        """Write a table with eight bytes per field, after its vtable."""
        present = {slot: value for slot, value in fields.items() if not _absent(value)}
        count = max(present, default=-1) + 1
        self.align(8, after=4 + 2 * count)
        start = len(self.data)
        entries = [
            8 + 8 * list(present).index(slot) if slot in present else 0 for slot in range(count)
        ]
        self.data += struct.pack(f"<{2 + count}H", 4 + 2 * count, 8 + 8 * len(present), *entries)
        position = len(self.data)
        self.data += struct.pack("<i4x", position - start) + bytes(8 * len(present))
        for number, value in enumerate(present.values()):
            self._put(position + 8 + 8 * number, value)
        return position

    def references(self, values: Iterable[FieldValue]) -> int:
        items = list(values)
        position = self.align(4)
        self.data += struct.pack("<I", len(items)) + bytes(4 * len(items))
        for number, value in enumerate(items):
            self._put(position + 4 + 4 * number, value)
        return position

    def numbers(self, values: Iterable[int]) -> int:
        items = list(values)
        position = self.align(4)
        self.data += struct.pack(f"<I{len(items)}i", len(items), *items)
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
        """Return the new tables followed by the old file, with all references resolved."""
        base = self.align(ALIGNMENT)
        self.offsets.append((0, "root"))
        for position, value in self.offsets:
            struct.pack_into("<I", self.data, position, self._target(value, base) - position)
        for position, offset in self.absolute:
            struct.pack_into("<Q", self.data, position, base + offset)
        return b"".join([self.data, memoryview(content)])

    def _target(self, value: str | Existing, base: int) -> int:
        return (
            base + (value.position or 0) if isinstance(value, Existing) else self.positions[value]
        )


def _absent(value: FieldValue) -> bool:
    return isinstance(value, Existing) and value.position is None
