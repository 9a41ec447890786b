"""Damage a model file: random bits or words, or fields changed on purpose."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from math import inf, nan

from fuzz.tflite_fields import Fields

MAGIC = slice(4, 8)  # kept, or the file would be another one instead of a damaged one
WORDS = (0, 1, 2, 3, 4, 7, 8, 16, 100, 255, 1000, 2**16, 2**20, 2**28, 2**31 - 1, 2**31, 2**32 - 1)
NOT_NUMBERS = (0x7F800000, 0x7FC00000)
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 64, 1000, 2**16, 2**20, 2**31 - 1, -1, -(2**31))
SCALES = (nan, inf, -inf, 0.0, -0.0, -1.0, 1e-45, 1e-38, 1e-6, 0.5, 1.0, 3e38)
POINTS = (0, 1, -1, 127, -128, 128, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63))
SPECIAL_NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 5, 8, 127, 128, 255, 2**31 - 1, -(2**31))
# Values for fields of each meaning. Others get random words.
VALUES: dict[str, Sequence[int | float]] = {
    "size": SIZES,
    "scale": SCALES,
    "zero point": POINTS,
    "axis": SPECIAL_NUMBERS,
    "number": SPECIAL_NUMBERS,
    "option": SPECIAL_NUMBERS,
    "type": range(-1, 20),
    "operator": range(210),
    "union": range(130),
    "flag": (0, 1),
    "version": (0, 1, 2, 3, 9, -1),
    "tensor number": range(-2, 20),
    "buffer number": range(20),
    "operator number": range(8),
    "graph number": range(4),
    "length": (0, 1, 2, 3, 4, 5, 8, 16, 2**16, 2**31 - 1, 2**32 - 1),
}
# Offsets are frequent, and a file without its tables is soon rejected.
RARE = ("entry", "distance", "offset", "length", "byte")
SHARE_OF_RARE = 0.1
SHARE_OF_WEIGHTS = 0.02


def mutate(data: bytes, rng: random.Random, fields: Fields | None = None) -> bytes:
    """Apply a few changes; with the fields of a file, most of them on purpose."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        if fields is None or rng.random() < 0.3:
            _change_anywhere(changed, rng, fields)
        elif rng.random() < 0.15:
            _swap_tables(changed, rng, fields)
        else:
            _change_field(changed, rng, fields)
    if len(changed) >= MAGIC.stop:
        changed[MAGIC] = data[MAGIC]
    return bytes(changed)


def _change_anywhere(changed: bytearray, rng: random.Random, fields: Fields | None) -> None:
    """Change a bit, a byte, a word, or the end."""
    kind, place = rng.random(), _offset(changed, rng, fields)
    if kind < 0.4:
        changed[place] ^= 1 << rng.randrange(8)
    elif kind < 0.5:
        changed[place] = rng.randrange(256)
    elif kind < 0.95:
        word = rng.choice(WORDS + NOT_NUMBERS)
        start = place & ~3
        changed[start : start + 4] = struct.pack("<I", word)[: len(changed) - start]
    else:
        del changed[max(place, MAGIC.stop) :]


def _offset(changed: bytearray, rng: random.Random, fields: Fields | None) -> int:
    """Return any offset, but rarely one of the weights, where almost any number is valid."""
    while True:
        offset = rng.randrange(len(changed))
        inside = fields is not None and any(offset in weights for weights in fields.weights)
        if not inside or rng.random() < SHARE_OF_WEIGHTS:
            return offset


def _change_field(changed: bytearray, rng: random.Random, fields: Fields) -> None:
    """Set a number to an odd value for its meaning, a neighbor, or the value of another field."""
    rare = rng.random() < SHARE_OF_RARE
    meanings = [name for name in fields.numbers if (name in RARE) == rare]
    meaning = rng.choice(meanings or list(fields.numbers))
    field = rng.choice(fields.numbers[meaning])
    way = rng.random()
    try:
        if way < 0.5:
            value = rng.choice(VALUES.get(meaning, WORDS))
        elif way < 0.7:
            value = field.read(changed) + rng.choice((-1, 1))
        else:
            value = rng.choice(fields.numbers[meaning]).read(changed)
        field.write(changed, value)
    except (struct.error, OverflowError):
        return  # no number of this width, or behind the truncated end


def _swap_tables(changed: bytearray, rng: random.Random, fields: Fields) -> None:
    """Swap two offsets to tables of one kind, or make both equal."""
    kind = rng.choice(list(fields.pointers))
    here, there = (rng.choice(fields.pointers[kind]) for _ in range(2))
    try:
        (mine,) = struct.unpack_from("<I", changed, here)
        (theirs,) = struct.unpack_from("<I", changed, there)
        struct.pack_into("<I", changed, here, there + theirs - here)
        if rng.random() < 0.5:
            struct.pack_into("<I", changed, there, here + mine - there)
    except struct.error:
        return  # flatbuffers point forward only, or the end was truncated
