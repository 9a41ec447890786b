"""The file form: a header, a table of sections, and sections that can be used where they lie.

All numbers are little-endian. Nothing is believed before its checksum held; the layout is in
docs/internals/file-format.md.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from zlib import crc32

import numpy as np

from fourfold.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"FOURFOLD"
VERSION = 5
HEADER = struct.Struct("<8sIIQQII20xI")  # magic, version, size, file, table, sections, crc; own crc
ENTRY = struct.Struct("<16sQQII8x")  # name, offset, size, crc, number
ALIGNMENT = 64
PAGE = 4096
LARGE = 1 << 16  # sections from here on start a page, so that a player may map them
MOST_SECTIONS = 1 << 20

Bytes = bytes | bytearray | memoryview | np.ndarray
Content = bytes | mmap.mmap


class Section(NamedTuple):
    """A named piece of a file; its number is its place in the table."""

    name: str
    data: Bytes


class _Entry(NamedTuple):
    name: str
    offset: int
    size: int
    crc: int


class Container:
    """A file of sections, mapped into memory. Checksums are checked when a section is asked for."""

    def __init__(self, content: Content, title: str) -> None:
        self.title = title
        self._view = memoryview(content)
        self._entries = self._table()
        self._good: set[int] = set()

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Container:
        """The file at a path; OSError where it cannot be read, ModelError where it is damaged."""
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < HEADER.size:
                return Container(file.read(), f"'{os.fspath(path)}'")
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        return Container(mapped, f"'{os.fspath(path)}'")

    @property
    def size(self) -> int:
        return len(self._view)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self._entries)

    def section_size(self, number: int) -> int:
        return self._entry(number).size

    def section(self, number: int, name: str) -> memoryview:
        """The bytes of a section that must have this name."""
        entry = self._entry(number)
        if entry.name != name:
            raise self._damaged(f"section {number} is '{entry.name}' where '{name}' should be")
        data = self._view[entry.offset : entry.offset + entry.size]
        if number not in self._good:
            if crc32(data) != entry.crc:
                raise self._damaged(f"the checksum of section {number} ('{name}') does not hold")
            self._good.add(number)
        return data

    def verify(self) -> None:
        """Check every section."""
        for number, entry in enumerate(self._entries):
            self.section(number, entry.name)

    def _entry(self, number: int) -> _Entry:
        if type(number) is not int or not 0 <= number < len(self._entries):
            raise self._damaged(f"there is no section {number!r}")
        return self._entries[number]

    def _table(self) -> tuple[_Entry, ...]:
        if len(self._view) < HEADER.size or self._view[:8] != MAGIC:
            raise self._damaged("it does not start as a file of fourfold")
        fields = HEADER.unpack_from(self._view)
        _, version, header, size, start, count, crc, own = fields
        if crc32(self._view[: HEADER.size - 4]) != own:
            raise self._damaged("the checksum of its header does not hold")
        if version != VERSION:
            raise ModelError(
                f"{self.title} has format {version}",
                f"this fourfold reads format {VERSION}",
                "use the fourfold that wrote it, or prepare the model again",
            )
        if header != HEADER.size or size != len(self._view):
            raise self._damaged(f"it has {len(self._view)} bytes where {size} were written")
        end = start + count * ENTRY.size
        if count > MOST_SECTIONS or start < HEADER.size or end > size:
            raise self._damaged("its table of sections lies outside of it")
        if crc32(self._view[start:end]) != crc:
            raise self._damaged("the checksum of its table does not hold")
        return tuple(self._checked(*item) for item in ENTRY.iter_unpack(self._view[start:end]))

    def _checked(self, name: bytes, offset: int, size: int, crc: int, _number: int) -> _Entry:
        if offset % ALIGNMENT or offset < HEADER.size or offset + size > len(self._view):
            raise self._damaged("a section lies outside of it")
        try:
            return _Entry(name.rstrip(b"\0").decode("ascii"), offset, size, crc)
        except UnicodeDecodeError as error:
            raise self._damaged("a section has no name") from error

    def _damaged(self, why: str) -> ModelError:
        return ModelError(
            f"{self.title} is damaged", why, "copy it again, or prepare the model again"
        )


def flat_bytes(data: Bytes) -> memoryview:
    """The same memory as single bytes."""
    if isinstance(data, np.ndarray):
        return memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    return memoryview(data).cast("B") if len(data) else memoryview(b"")


def container_pieces(sections: Sequence[Section]) -> Iterator[bytes | memoryview]:
    """The file's bytes in order, the sections as views of what was given."""
    flats = [flat_bytes(section.data) for section in sections]
    cursor = HEADER.size + ENTRY.size * len(sections)
    entries, offsets = [], []
    for number, (section, flat) in enumerate(zip(sections, flats, strict=True)):
        step = PAGE if len(flat) >= LARGE else ALIGNMENT
        cursor = -(-cursor // step) * step
        offsets.append(cursor)
        name = section.name.encode("ascii")
        entries.append(ENTRY.pack(name, cursor, len(flat), crc32(flat), number))
        cursor += len(flat)
    table = b"".join(entries)
    size, count = HEADER.size, len(sections)
    head = HEADER.pack(MAGIC, VERSION, size, cursor, size, count, crc32(table), 0)[:-4]
    yield head + struct.pack("<I", crc32(head)) + table
    place = HEADER.size + len(table)
    for offset, flat in zip(offsets, flats, strict=True):
        yield bytes(offset - place)
        yield flat
        place = offset + len(flat)


def container_bytes(sections: Sequence[Section]) -> bytes:
    return b"".join(container_pieces(sections))


def _write(file: BinaryIO, sections: Sequence[Section]) -> int:
    size = 0
    for piece in container_pieces(sections):
        file.write(piece)
        size += len(piece)
    return size


def write_container(path: Path, sections: Sequence[Section], mode: int, sync: bool) -> int:
    """Write aside, then put in place: the file is whole or as it was before. Gives its size."""
    aside = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            size = _write(file, sections)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside)
    return size
