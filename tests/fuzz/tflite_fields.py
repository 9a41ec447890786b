"""Positions and meanings of the fields of a TFLite file, to change them on purpose.

The walk has its own schema and shares no code with the reader under test. It works on undamaged
files.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

MAX_LIST_BYTES = 64  # a buffer of axes, sizes or pads
MIN_WEIGHT_BYTES = 4096  # a buffer of weights
MAX_NUMBERS = 256  # recorded per vector

# Slots of tables: (form, meaning) for a number, [form, meaning] for a vector of numbers, the name
# of a table, or [the name of a table] for a vector of tables.
SCHEMA: Mapping[str, Mapping[int, object]] = {
    "model": {
        1: ["operator code"],
        2: ["graph"],
        4: ["buffer"],
        6: ["metadata"],
        7: ["signature"],
    },
    "operator code": {0: ("b", "operator"), 2: ("i", "version"), 3: ("i", "operator")},
    "graph": {
        0: ["tensor"],
        1: ["i", "tensor number"],
        2: ["i", "tensor number"],
        3: ["operation"],
    },
    "tensor": {
        0: ["i", "size"],
        1: ("b", "type"),
        2: ("I", "buffer number"),
        4: "quantisation",
        5: ("B", "flag"),
        6: "sparsity",
        7: ["i", "size"],
        8: ("B", "flag"),
    },
    "quantisation": {
        0: ["f", "scale"],
        1: ["f", "scale"],
        2: ["f", "scale"],
        3: ["q", "zero point"],
        4: ("B", "union"),
        6: ("i", "axis"),
    },
    "sparsity": {0: ["i", "axis"], 1: ["i", "axis"], 2: ["dimension"]},
    "dimension": {
        0: ("b", "flag"),
        1: ("i", "size"),
        2: ("B", "union"),
        3: "indices",
        4: ("B", "union"),
        5: "indices",
    },
    "indices": {0: ["B", "byte"]},
    "operation": {
        0: ("I", "operator number"),
        1: ["i", "tensor number"],
        2: ["i", "tensor number"],
        3: ("B", "union"),
        4: "options",
        5: ["B", "byte"],
        8: ["i", "tensor number"],
        11: ("B", "union"),
        12: "options",
    },
    "buffer": {0: ["B", "data"]},
    "metadata": {1: ("I", "buffer number")},
    "signature": {0: ["tensor map"], 1: ["tensor map"], 4: ("I", "graph number")},
    "tensor map": {1: ("I", "tensor number")},
}
_WIDTHS = {1: "B", 2: "H", 4: "i", 8: "q"}


@dataclass(frozen=True)
class Field:
    """A number in a file; `form` is a little-endian `struct` format."""

    position: int
    form: str

    def read(self, data: bytes | bytearray) -> int | float:
        value: int | float = struct.unpack_from(f"<{self.form}", data, self.position)[0]
        return value

    def write(self, data: bytearray, value: int | float) -> None:
        struct.pack_into(f"<{self.form}", data, self.position, value)


@dataclass
class Fields:
    """Numbers of a file by meaning, offsets of tables by kind, and the weights."""

    numbers: dict[str, list[Field]] = field(default_factory=lambda: defaultdict(list))
    pointers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    weights: list[range] = field(default_factory=list)
    operations: int = 0


def find_fields(data: bytes) -> Fields:
    """Return the fields of an undamaged file."""
    result = _Walk(data)
    result.table("model", result.follow(0))
    result.fields.operations = len(result.fields.pointers.get("operation", ()))
    return result.fields


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data, self.fields = data, Fields()

    def number(self, form: str, position: int) -> int:
        return int(struct.unpack_from(f"<{form}", self.data, position)[0])

    def follow(self, position: int) -> int:
        return position + self.number("I", position)

    def note(self, meaning: str, position: int, form: str) -> None:
        self.fields.numbers[meaning].append(Field(position, form))

    def table(self, kind: str, position: int) -> None:
        slots = dict(self.slots(position))
        if kind == "options":
            self.options(slots, position)
        for slot, what in SCHEMA.get(kind, {}).items():
            if slot in slots:
                self.slot(what, slots[slot])

    def slots(self, position: int) -> Iterator[tuple[int, int]]:
        """Yield the slots of a table with their positions, and record the vtable entries."""
        entries = position - self.number("i", position)
        self.note("distance", position, "i")
        for slot in range((self.number("H", entries) - 4) // 2):
            entry = entries + 4 + 2 * slot
            self.note("entry", entry, "H")
            if self.number("H", entry):
                yield slot, position + self.number("H", entry)

    def options(self, slots: Mapping[int, int], position: int) -> None:
        """Record numbers whose width follows from the distance to the next one."""
        end = position + self.number("H", position - self.number("i", position) + 2)
        positions = [*sorted(slots.values()), end]
        for place, following in pairwise(positions):
            width = max(size for size in _WIDTHS if size <= max(following - place, 1))
            self.note("option", place, _WIDTHS[width])

    def slot(self, what: object, position: int) -> None:
        if isinstance(what, tuple):
            form, meaning = what
            self.note(meaning, position, form)
        elif isinstance(what, str):
            self.pointer(what, position)
        elif isinstance(what, list):
            self.vector(what, self.follow(position))

    def pointer(self, kind: str, position: int) -> None:
        self.note("offset", position, "I")
        self.fields.pointers[kind].append(position)
        self.table(kind, self.follow(position))

    def vector(self, what: list[str], start: int) -> None:
        self.note("length", start, "I")
        count, first = self.number("I", start), start + 4
        if len(what) == 1:
            for index in range(count):
                self.pointer(what[0], first + 4 * index)
        elif what[1] == "data":
            self.contents(first, count)
        else:
            form, meaning = what
            width = struct.calcsize(form)
            for index in range(min(count, MAX_NUMBERS)):
                self.note(meaning, first + width * index, form)

    def contents(self, first: int, count: int) -> None:
        """Record the content of a buffer: a few numbers, such as axes, or weights."""
        if count <= MAX_LIST_BYTES:
            for position in range(first, first + count - 3, 4):
                self.note("number", position, "i")
        if count >= MIN_WEIGHT_BYTES:
            self.fields.weights.append(range(first, first + count))
