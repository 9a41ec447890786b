"""Files in a ZIP archive that is appended to a model, read within bounds whatever it claims."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.formats.source import Content

_END = struct.Struct("<4s4HIIH")  # mark, disks, entries here and in all, size and place, comment
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 1
_COMMENT = 0xFFFF  # bytes that may follow the end record
MOST_FILES = 256
MOST_BYTES = 2**21  # of one file
MOST_IN_ALL = 2**22  # of all that is read of one model


@dataclass(frozen=True)
class _Member:
    place: int  # of its local header
    method: int
    flags: int
    checksum: int
    packed: int
    size: int


@dataclass
class AppendedFiles:
    """The archive at the end of a model, if there is one. Nothing is written anywhere: a name is
    only a name, wherever it points to.
    """

    content: Content
    members: Mapping[str, _Member]
    _left: int = field(default=MOST_IN_ALL)

    @staticmethod
    def find(content: Content) -> AppendedFiles:
        """Those of a model; ValueError where there is an archive that makes no sense."""
        start = max(0, len(content) - _COMMENT - _END.size)
        found = content.rfind(b"PK\x05\x06", start)
        if found < 0 or found + _END.size > len(content):
            return AppendedFiles(content, {})
        _, _, _, _, count, size, place, _ = _END.unpack_from(content, found)
        # Places count from the archive's start, which some writers take to be that of the model.
        shift = found - size - place
        if count > MOST_FILES or found < size or shift < 0:
            raise ValueError(f"the archive at its end claims {count} files in {size} bytes")
        return AppendedFiles(content, dict(_members(content, found - size, found, shift)))

    def size(self, name: str) -> int | None:
        return self.members[name].size if name in self.members else None

    def read(self, name: str) -> bytes:
        """All of a file; ValueError where it is not there, too large or damaged."""
        if name not in self.members:
            raise ValueError(f"the file '{name}' is not there")
        member = self.members[name]
        limit = min(MOST_BYTES, self._left)
        if member.flags & _ENCRYPTED or member.method not in (_STORED, _DEFLATED):
            raise ValueError(f"the file '{name}' is packed in a way that is not known")
        if max(member.size, member.packed - member.size) > limit:
            raise ValueError(f"the file '{name}' has {member.size} bytes, more than are read")
        data = _unpacked(self.content, member)
        if len(data) != member.size or zlib.crc32(data) != member.checksum:
            raise ValueError(f"the file '{name}' is damaged")
        self._left -= len(data)
        return data


def _members(content: Content, place: int, end: int, shift: int) -> list[tuple[str, _Member]]:
    found = []
    while place + _ENTRY.size <= end:
        fields = _ENTRY.unpack_from(content, place)
        mark, flags, method, checksum, packed, size = (fields[i] for i in (0, 3, 4, 7, 8, 9))
        name, extra, comment, header = fields[10], fields[11], fields[12], fields[16]
        place += _ENTRY.size
        if mark != b"PK\x01\x02" or place + name > end:
            raise ValueError("the list of files at its end is damaged")
        text = content[place : place + name].decode("utf-8", "backslashreplace")
        found.append((text, _Member(header + shift, method, flags, checksum, packed, size)))
        place += name + extra + comment
    return found


def _unpacked(content: Content, member: _Member) -> bytes:
    """At most one byte more than the archive says, so that more can be told from enough."""
    start = member.place
    if start + _LOCAL.size > len(content):
        return b""
    fields = _LOCAL.unpack_from(content, start)
    start += _LOCAL.size + fields[9] + fields[10]
    packed = content[start : start + member.packed]
    if fields[0] != b"PK\x03\x04" or member.method == _STORED:
        return packed if fields[0] == b"PK\x03\x04" else b""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.size + 1)
    except zlib.error as error:
        raise ValueError(f"a packed file is damaged: {error}") from error
