"""The file format: a header, a table of sections, and sections that can be used in place.

All numbers are little-endian. Data is used only after its checksum was verified. The layout is
described in docs/internals/file-format.md.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from zlib import compressobj, crc32, decompressobj
from zlib import error as zlib_error

import numpy as np

from fourfold.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"FOURFOLD"
EXTENSION = ".fourfold"  # of prepared files
IN_MEMORY = "the prepared model"  # title of a prepared file that is passed as bytes
VERSION = 6
HEADER = struct.Struct("<8sIIQQII20xI")  # magic, version, size, file, table, sections, crc; own crc
ENTRY = struct.Struct("<16sQQIIQ")  # name, offset, size, crc, number, size before compression or 0
ALIGNMENT = 64
PAGE = 4096
PAGE_ALIGNED_BYTES = 1 << 16  # larger sections start on a page, so that a player can map them
MAX_SECTIONS = 1 << 20
# Sections of text, which shrink to a fraction when a file is compressed; others are used in place.
TEXT_SECTIONS = frozenset({"index", "model", "plan", "text", "placement", "about", "choices"})
RAW_DEFLATE = -15  # a deflate stream without header and checksum
MAX_COMPRESSION = 1032  # deflate cannot shrink more

Bytes = bytes | bytearray | memoryview | np.ndarray
Content = bytes | mmap.mmap


class Section(NamedTuple):
    """A named section of a file; its number is its index in the table."""

    name: str
    data: Bytes


class _Entry(NamedTuple):
    name: str
    offset: int
    size: int
    crc: int
    expanded: int  # size before compression; 0 if the section is not compressed


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def open_regular(
    path: str | os.PathLike[str], opener: Callable[[str, int], int] = _open_without_waiting
) -> BinaryIO:
    """Open a file for reading, through the `opener` of Python's `open`. Raises OSError if it cannot
    be read or is not a regular file: a pipe would wait for another program.
    """
    try:
        file = open(path, "rb", opener=opener)  # noqa: SIM115 - the caller closes it
    except ValueError as error:  # the path holds a character that no file name can hold
        raise OSError(f"the path is not valid: {error}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError("it is not a regular file")
    return file


class Container:
    """A file of sections, mapped into memory. A section's checksum is verified on first access."""

    def __init__(self, content: Content, title: str) -> None:
        self.title = title
        self._view = memoryview(content)
        self._entries = self._table()
        self._good: set[int] = set()
        self._expanded: dict[int, memoryview] = {}

    @staticmethod
    def open(
        path: str | os.PathLike[str], opener: Callable[[str, int], int] = _open_without_waiting
    ) -> Container:
        """Open a file, through the `opener` of Python's `open`. Raises OSError if it cannot be
        read, ModelError if it is damaged.
        """
        with open_regular(path, opener) as file:
            size = os.fstat(file.fileno()).st_size
            if size < HEADER.size:
                return Container(file.read(), f"'{os.fspath(path)}'")
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        return Container(mapped, f"'{os.fspath(path)}'")

    @property
    def content(self) -> memoryview:
        """The bytes of the whole file."""
        return self._view

    @property
    def size(self) -> int:
        return len(self._view)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self._entries)

    def section_size(self, number: int) -> int:
        return self._entry(number).size

    def section(self, number: int, name: str) -> memoryview:
        """Return the bytes of a section, which must have this name."""
        entry = self._entry(number)
        if entry.name != name:
            raise self._damaged(f"section {number} is '{entry.name}' instead of '{name}'")
        data = self._view[entry.offset : entry.offset + entry.size]
        if number not in self._good:
            if crc32(data) != entry.crc:
                raise self._damaged(f"the checksum of section {number} ('{name}') does not match")
            self._good.add(number)
        return self._expand(number, data) if entry.expanded else data

    def _expand(self, number: int, data: memoryview) -> memoryview:
        """Return the content of a compressed section."""
        if number not in self._expanded:
            size, stream = self._entries[number].expanded, decompressobj(RAW_DEFLATE)
            try:
                content = stream.decompress(data, size)
            except zlib_error as error:
                raise self._damaged(f"section {number} cannot be expanded: {error}") from error
            if len(content) != size or stream.decompress(stream.unconsumed_tail, 1):
                raise self._damaged(f"section {number} does not expand to {size} bytes")
            self._expanded[number] = memoryview(content)
        return self._expanded[number]

    def verify(self) -> None:
        """Verify the checksums of all sections."""
        for number, entry in enumerate(self._entries):
            self.section(number, entry.name)

    def _entry(self, number: int) -> _Entry:
        if type(number) is not int or not 0 <= number < len(self._entries):
            raise self._damaged(f"there is no section {number!r}")
        return self._entries[number]

    def _table(self) -> tuple[_Entry, ...]:
        if len(self._view) < HEADER.size or self._view[:8] != MAGIC:
            raise self._damaged("it does not start like a fourfold file")
        fields = HEADER.unpack_from(self._view)
        _, version, header, size, start, count, crc, own = fields
        if crc32(self._view[: HEADER.size - 4]) != own:
            raise self._damaged("the checksum of its header does not match")
        if version != VERSION:
            raise ModelError(
                f"{self.title} has format {version}",
                f"this fourfold reads format {VERSION}",
                "use the fourfold that wrote it, or prepare the model again",
            )
        if header != HEADER.size or size != len(self._view):
            raise self._damaged(f"it has {len(self._view)} bytes instead of {size}")
        end = start + count * ENTRY.size
        if count > MAX_SECTIONS or start < HEADER.size or end > size:
            raise self._damaged("its table of sections is out of bounds")
        if crc32(self._view[start:end]) != crc:
            raise self._damaged("the checksum of its table does not match")
        table = ENTRY.iter_unpack(self._view[start:end])
        entries = tuple(self._checked(*item) for item in table)
        if sum(entry.expanded for entry in entries) > MAX_COMPRESSION * size:
            raise self._damaged("its sections are impossibly large before compression")
        return entries

    def _checked(
        self, name: bytes, offset: int, size: int, crc: int, _number: int, expanded: int
    ) -> _Entry:
        if offset % ALIGNMENT or offset < HEADER.size or offset + size > len(self._view):
            raise self._damaged("a section is out of bounds")
        if expanded > MAX_COMPRESSION * size:
            raise self._damaged("a section has an impossible size before compression")
        try:
            return _Entry(name.rstrip(b"\0").decode("ascii"), offset, size, crc, expanded)
        except UnicodeDecodeError as error:
            raise self._damaged("the name of a section is invalid") from error

    def _damaged(self, why: str) -> ModelError:
        return ModelError(
            f"{self.title} is damaged", why, "copy it again, or prepare the model again"
        )


def flat_bytes(data: Bytes) -> memoryview:
    """Return the memory of data as single bytes."""
    if isinstance(data, np.ndarray):
        return memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    return memoryview(data).cast("B") if len(data) else memoryview(b"")


def _compressed(section: Section, flat: memoryview) -> memoryview:
    """Return a section of text as a deflate stream if that is shorter, else its bytes."""
    if section.name not in TEXT_SECTIONS:
        return flat
    stream = compressobj(9, wbits=RAW_DEFLATE)
    data = stream.compress(flat) + stream.flush()
    return memoryview(data) if len(data) < len(flat) else flat


def container_pieces(
    sections: Sequence[Section], compress: bool = False
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file in order; sections are views of the passed data, or compressed."""
    flats = [flat_bytes(section.data) for section in sections]
    sizes = [len(flat) for flat in flats]
    if compress:
        flats = [_compressed(*pair) for pair in zip(sections, flats, strict=True)]
    cursor = HEADER.size + ENTRY.size * len(sections)
    entries, offsets = [], []
    for number, (section, flat, size) in enumerate(zip(sections, flats, sizes, strict=True)):
        step = PAGE if len(flat) >= PAGE_ALIGNED_BYTES else ALIGNMENT
        cursor = -(-cursor // step) * step
        offsets.append(cursor)
        name = section.name.encode("ascii")
        expanded = 0 if size == len(flat) else size
        entries.append(ENTRY.pack(name, cursor, len(flat), crc32(flat), number, expanded))
        cursor += len(flat)
    table = b"".join(entries)
    size, count = HEADER.size, len(sections)
    head = HEADER.pack(MAGIC, VERSION, size, cursor, size, count, crc32(table), 0)[:-4]
    yield head + struct.pack("<I", crc32(head)) + table
    written = HEADER.size + len(table)
    for offset, flat in zip(offsets, flats, strict=True):
        yield bytes(offset - written)
        yield flat
        written = offset + len(flat)


def container_bytes(sections: Sequence[Section]) -> bytes:
    return b"".join(container_pieces(sections))


def _write(file: BinaryIO, pieces: Iterable[bytes | memoryview]) -> int:
    size = 0
    for piece in pieces:
        file.write(piece)
        size += len(piece)
    return size


def write_container(
    path: Path, sections: Sequence[Section], mode: int, sync: bool, compress: bool = False
) -> int:
    """Write a file of sections atomically, and return its size. With `compress`, sections of text
    are compressed.
    """
    return write_pieces(path, container_pieces(sections, compress), mode, sync)


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview], mode: int, sync: bool) -> int:
    """Write a file atomically, through a temporary file, and return its size."""
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            size = _write(file, pieces)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    return size
