"""Reads files from a ZIP archive appended to a model, within fixed size limits."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.formats.source import Content

# Signature, disks, entries on this disk and total, size and offset, comment length.
_END = struct.Struct("<4s4HIIH")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 1
_COMMENT = 0xFFFF  # max bytes after the end record
MAX_FILES = 256
MAX_FILE_BYTES = 2**21  # per file
MAX_TOTAL_BYTES = 2**22  # of all files read from one model


@dataclass(frozen=True)
class _Member:
    offset: int  # offset of its local header
    method: int
    flags: int
    checksum: int
    packed_size: int
    size: int


@dataclass
class AppendedFiles:
    """The ZIP archive at the end of a model, if there is one.

    Nothing is extracted to disk, so file names need no check.
    """

    content: Content
    members: Mapping[str, _Member]
    _bytes_left: int = field(default=MAX_TOTAL_BYTES)

    @staticmethod
    def find(content: Content) -> AppendedFiles:
        """Find the archive of a model.

        Raises ValueError if the archive is damaged.
        """
        start = max(0, len(content) - _COMMENT - _END.size)
        end_record = content.rfind(b"PK\x05\x06", start)
        if end_record < 0 or end_record + _END.size > len(content):
            return AppendedFiles(content, {})
        _, _, _, _, count, size, offset, _ = _END.unpack_from(content, end_record)
        # Offsets count from the start of the archive; some writers count from the start of the
        # model.
        shift = end_record - size - offset
        if count > MAX_FILES or end_record < size or shift < 0:
            raise ValueError(f"the archive appended to it claims {count} files in {size} bytes")
        return AppendedFiles(content, dict(_members(content, end_record - size, end_record, shift)))

    def size(self, name: str) -> int | None:
        return self.members[name].size if name in self.members else None

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises ValueError if the file is missing, too large or damaged.
        """
        if name not in self.members:
            raise ValueError(f"the file '{name}' is missing")
        member = self.members[name]
        limit = min(MAX_FILE_BYTES, self._bytes_left)
        if member.flags & _ENCRYPTED or member.method not in (_STORED, _DEFLATED):
            raise ValueError(f"the file '{name}' uses an unsupported compression")
        if max(member.size, member.packed_size - member.size) > limit:
            raise ValueError(f"the file '{name}' has {member.size} bytes, more than the limit")
        data = _unpacked(self.content, member)
        if len(data) != member.size or zlib.crc32(data) != member.checksum:
            raise ValueError(f"the file '{name}' is damaged")
        self._bytes_left -= len(data)
        return data


def _members(content: Content, offset: int, end: int, shift: int) -> list[tuple[str, _Member]]:
    members = []
    while offset + _ENTRY.size <= end:
        fields = _ENTRY.unpack_from(content, offset)
        mark, flags, method, checksum, packed_size, size = (fields[i] for i in (0, 3, 4, 7, 8, 9))
        name, extra, comment, header = fields[10], fields[11], fields[12], fields[16]
        offset += _ENTRY.size
        if mark != b"PK\x01\x02" or offset + name > end:
            raise ValueError("the directory of the appended archive is damaged")
        text = content[offset : offset + name].decode("utf-8", "backslashreplace")
        members.append((text, _Member(header + shift, method, flags, checksum, packed_size, size)))
        offset += name + extra + comment
    return members


def _unpacked(content: Content, member: _Member) -> bytes:
    """Return the unpacked bytes, at most one more than declared, to detect a wrong size."""
    start = member.offset
    if start + _LOCAL.size > len(content):
        return b""
    fields = _LOCAL.unpack_from(content, start)
    start += _LOCAL.size + fields[9] + fields[10]
    packed_size = content[start : start + member.packed_size]
    if fields[0] != b"PK\x03\x04" or member.method == _STORED:
        return packed_size if fields[0] == b"PK\x03\x04" else b""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed_size, member.size + 1)
    except zlib.error as error:
        raise ValueError(f"an appended file is damaged: {error}") from error
