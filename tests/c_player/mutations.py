"""Damages prepared files: random bytes, and forged fields with valid checksums."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any
from zlib import compressobj, crc32, decompress

from fourfold.plan.container import VERSION

HEADER, ENTRY = struct.Struct("<8sIIQQII20xI"), struct.Struct("<16sQQIIQ")
EXTREMES = (0, 1, -1, 2, 63, 64, 65, 255, 4096, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**47)
HUGE = (2**48, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 0.5, 1e308, None, True, "", [], {})
TEXTS = ("", "x" * 5000, "f32[", "f32[9999999999999]", "f32[0]", "u8[1,1,1]", "constants", "host")
NUMBER = re.compile(rb"(?<![\w\"])-?\d+(?:\.\d+)?(?![\w\"])")
Values = list[tuple[Any, Any]]  # containers with a key or index of a value


def sealed(head: list[Any], entries: list[list[Any]], body: bytes) -> bytes:
    """Return a file with valid checksums for any fields."""
    table = b"".join(ENTRY.pack(*one) for one in entries)
    data = bytearray(body)
    start = HEADER.size
    data[start : start + len(table)] = table
    head[6] = crc32(table)
    top = HEADER.pack(*head[:7], 0)[:-4]
    data[: HEADER.size] = top + struct.pack("<I", crc32(top))
    return bytes(data)


def parts(data: bytes) -> tuple[list[Any], list[list[Any]]]:
    head = list(HEADER.unpack_from(data))
    count = head[5]
    return head, [list(ENTRY.unpack_from(data, HEADER.size + n * ENTRY.size)) for n in range(count)]


def resealed(data: bytes) -> bytes:
    """Return a file with its checksums recomputed."""
    head, entries = parts(data)
    for entry in entries:
        entry[3] = crc32(data[entry[1] : entry[1] + entry[2]])
    return sealed(head, entries, data)


def overlapping(count: int, size: int = 1 << 20) -> bytes:
    """Return a file whose sections all are the same stream, which expands to `size` zeros."""
    stream = compressobj(9, wbits=-15)
    data = stream.compress(bytes(size)) + stream.flush()
    start = -(-(HEADER.size + count * ENTRY.size) // 64) * 64
    entry = [b"index", start, len(data), crc32(data)]
    head = [b"FOURFOLD", VERSION, HEADER.size, start + len(data), HEADER.size, count, 0, 0]
    return sealed(head, [[*entry, number, size] for number in range(count)], bytes(start) + data)


def flip(data: bytes, draw: random.Random) -> bytes:
    """Change some bytes, or truncate the file, as after a bad copy."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    if draw.random() < 0.2:
        del changed[draw.randrange(len(changed)) :]
    return bytes(changed)


def lie(data: bytes, draw: random.Random) -> bytes:
    """Change a number in the header or table, with valid checksums."""
    head, entries = parts(data)
    if draw.random() < 0.3:
        place, most = draw.choice(((1, 32), (2, 32), (3, 64), (4, 64), (5, 32)))
        head[place] = draw.choice((draw.randrange(2**most), draw.choice(EXTREMES) % 2**most))
    else:
        entry, place = draw.choice(entries), draw.choice((1, 2, 2, 3, 5))
        most = 32 if place == 3 else 64
        near = (entry[place] + draw.choice((-64, -1, 1, 64))) % 2**most
        entry[place] = draw.choice((near, draw.choice(EXTREMES) % 2**most))
        if place != 3 and entry[1] + entry[2] <= len(data):
            entry[3] = crc32(data[entry[1] : entry[1] + entry[2]])
    return sealed(head, entries, data)


def rewritten(data: bytes, change: Callable[[bytes], bytes], draw: random.Random) -> bytes:
    """Change the text of a JSON section, with valid checksums."""
    head, entries = parts(data)
    records = [one for one in entries if one[0].rstrip(b"\0") in (b"plan", b"index")]
    entry = draw.choice(records)
    text = data[entry[1] : entry[1] + entry[2]]
    text = change(decompress(text, wbits=-15) if entry[5] else text)
    start = -(-len(data) // 64) * 64
    body = data.ljust(start, b"\0") + text
    entry[1:4], entry[5] = (start, len(text), crc32(text)), 0
    head[3] = len(body)
    return sealed(head, entries, body)


def _values(value: Any) -> Values:
    items = enumerate(value) if isinstance(value, list) else ()
    pairs = value.items() if isinstance(value, dict) else items
    return [one for key, inner in pairs for one in ((value, key), *_values(inner))]


def reshape(data: bytes, draw: random.Random) -> bytes:
    """Change values in a record: extreme numbers, other types, missing or repeated members."""

    def change(text: bytes) -> bytes:
        record = json.loads(text)
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            holder, key = draw.choice(_values(record))
            _change(holder, key, draw)
        return json.dumps(record, ensure_ascii=False).encode()

    return rewritten(data, change, draw)


def _change(holder: Any, key: Any, draw: random.Random) -> None:
    try:
        old, way = holder[key], draw.random()
    except (KeyError, IndexError):
        return  # removed by an earlier change
    if isinstance(old, int | float) and way < 0.6:
        holder[key] = draw.choice((*EXTREMES, old + 1, old * 2, old - 1))
    elif isinstance(old, str) and way < 0.5:
        holder[key] = draw.choice((*TEXTS, old + "x", old.replace("1", "3")))
    elif way < 0.75:
        holder[key] = draw.choice(HUGE)
    elif way < 0.9 or not isinstance(holder, list):
        del holder[key]
    else:
        holder.insert(key, old)


def retype(data: bytes, draw: random.Random) -> bytes:
    """Change bytes, brackets and numbers in the text of a record."""

    def change(text: bytes) -> bytes:
        way, place = draw.random(), draw.randrange(len(text))
        if way < 0.3:
            signs = (b"[" * 40, b"\\u0000", b"\\ud800", b"\xff", b"\xc0\xaf", b"1e999", b"-", b'"')
            return text[:place] + draw.choice(signs) + text[place:]
        if way < 0.5:
            return text[:place]
        if way < 0.8 and (found := [*NUMBER.finditer(text)]):
            one, words = draw.choice(found), (b"01", b"1.", b"-", b"9" * 400, b"1e5", b"-0")
            return text[: one.start()] + draw.choice(words) + text[one.end() :]
        return text[:place] + bytes([draw.randrange(256)]) + text[place + 1 :]

    return rewritten(data, change, draw)


MUTATIONS = (flip, lie, reshape, reshape, reshape, retype)


def mutated(data: bytes, seed: int) -> bytes:
    """Return a damaged file; the seed determines the damage."""
    draw = random.Random(seed)
    return draw.choice(MUTATIONS)(data, draw)
