"""Reads tables of a flatbuffer and checks every offset."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from fourfold.formats.source import Content

_OFFSET, _DISTANCE, _ENTRY = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H")
_SCALARS = {form: struct.Struct(f"<{form}") for form in "?bBhHiIqQfd"}


class FlatBuffer:
    """The bytes of a file, and a limit on how many may be converted to Python objects.

    Offsets may point anywhere, so a small file can refer to one long vector thousands of times.
    Converted bytes are therefore counted and limited relative to the file size.
    """

    def __init__(self, content: Content) -> None:
        self.content = content
        self.size = len(content)
        self._allowance = 16 * self.size + 4096

    def spend(self, count: int) -> None:
        self._allowance -= count
        if self._allowance < 0:
            raise ValueError("its parts overlap: it has more content than fits a file of this size")

    def unpack(self, form: struct.Struct, position: int) -> int:
        self.check(position, form.size, "a number")
        value: int = form.unpack_from(self.content, position)[0]
        return value

    def check(self, position: int, size: int, what: str) -> None:
        if position < 0 or size < 0 or position + size > self.size:
            raise ValueError(f"{what} at byte {position} is outside the file ({self.size} bytes)")

    def view(self, position: int, dtype: np.dtype, count: int) -> np.ndarray:
        """Return `count` elements as a view of the file."""
        self.check(position, count * dtype.itemsize, f"a vector of {count} elements")
        return np.frombuffer(self.content, dtype, count, position)


class Table:
    """One table: fields by slot number; absent fields have their default."""

    def __init__(self, buffer: FlatBuffer, position: int) -> None:
        self.buffer, self.position = buffer, position
        self._fields = position - buffer.unpack(_DISTANCE, position)
        self._end = buffer.unpack(_ENTRY, self._fields)
        buffer.spend(4)

    @staticmethod
    def root(buffer: FlatBuffer) -> Table:
        return Table(buffer, buffer.unpack(_OFFSET, 0))

    def _find(self, slot: int) -> int:
        """Return the position of a field; 0 if it is absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self._end:
            return 0
        offset = self.buffer.unpack(_ENTRY, self._fields + entry)
        return self.position + offset if offset else 0

    def _follow(self, position: int) -> int:
        return position + self.buffer.unpack(_OFFSET, position)

    def scalar(self, slot: int, form: str, default: float = 0) -> int:
        position = self._find(slot)
        return self.buffer.unpack(_SCALARS[form], position) if position else default  # type: ignore[return-value]

    def table(self, slot: int) -> Table | None:
        position = self._find(slot)
        return Table(self.buffer, self._follow(position)) if position else None

    def target(self, slot: int) -> int | None:
        """Return the position that a field points to; None if it is absent."""
        position = self._find(slot)
        return self._follow(position) if position else None

    def tables(self, slot: int) -> Iterator[Table]:
        for position in self._positions(slot):
            yield Table(self.buffer, self._follow(position))

    def _positions(self, slot: int) -> range:
        position = self._find(slot)
        if not position:
            return range(0)
        start = self._follow(position)
        count = self.buffer.unpack(_OFFSET, start)
        self.buffer.check(start + 4, 4 * count, f"a vector of {count} tables")
        return range(start + 4, start + 4 + 4 * count, 4)

    def vector(self, slot: int, dtype: type[np.generic]) -> np.ndarray:
        position = self._find(slot)
        if not position:
            return np.empty(0, dtype)
        start = self._follow(position)
        little = np.dtype(dtype).newbyteorder("<")
        return self.buffer.view(start + 4, little, self.buffer.unpack(_OFFSET, start))

    def has(self, slot: int) -> bool:
        return self._find(slot) != 0

    def integers(self, slot: int, dtype: type[np.integer] = np.int32) -> tuple[int, ...]:
        array = self.vector(slot, dtype)
        self.buffer.spend(4 * array.size)
        return tuple(array.tolist())

    def floats(self, slot: int) -> tuple[float, ...]:
        array = self.vector(slot, np.float32)
        self.buffer.spend(4 * array.size)
        return tuple(array.tolist())

    def text(self, slot: int) -> str:
        """Return a string; bytes that are not UTF-8 are escaped, as names need only be unique."""
        position = self._find(slot)
        return self._text(position) if position else ""

    def is_text(self, slot: int) -> bool:
        """Return True if a string is valid UTF-8, or absent."""
        try:
            self.vector(slot, np.uint8).tobytes().decode()
        except UnicodeDecodeError:
            return False
        return True

    def texts(self, slot: int) -> Iterator[str]:
        for position in self._positions(slot):
            yield self._text(position)

    def _text(self, position: int) -> str:
        start = self._follow(position)
        size = self.buffer.unpack(_OFFSET, start)
        array = self.buffer.view(start + 4, np.dtype(np.uint8), size)
        self.buffer.spend(size)
        return array.tobytes().decode("utf-8", "backslashreplace")
