"""Compares the C player's decompression with zlib, also for damaged streams."""

from __future__ import annotations

import ctypes
import random
import zlib
from functools import cache

import pytest
from c_player.build import PLAYER, STRICT, build_program

GUARD = b"\xa5" * 64  # behind the target, to notice a write beyond its end
TEXT = (PLAYER / "plan.c").read_bytes()
RANDOM = random.Random(1).randbytes(70_000)
CONTENTS = {
    "empty": b"",
    "one byte": b"x",
    "text": TEXT,
    "repeated": b"abc" * 50_000,
    "zeros": bytes(100_000),
    "random": RANDOM,
    "mixed": TEXT + RANDOM + TEXT,
}


@cache
def library() -> ctypes.CDLL:
    flags = (*STRICT, "-shared", "-fPIC")
    found = ctypes.CDLL(str(build_program((PLAYER / "inflate.c",), flags)))
    found.ff_inflate.argtypes = (
        *(ctypes.c_char_p, ctypes.c_size_t),
        *(ctypes.c_void_p, ctypes.c_size_t),
    )
    return found


def inflate(stream: bytes, size: int) -> bytes | None:
    """Return the content of a stream; None if the player rejects it."""
    target = ctypes.create_string_buffer(bytes(size) + GUARD, size + len(GUARD))
    good = library().ff_inflate(stream, len(stream), target, size)
    assert target.raw[size:] == GUARD
    return target.raw[:size] if good else None


def deflate(content: bytes, level: int, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    stream = zlib.compressobj(level, wbits=-15, strategy=strategy)
    return stream.compress(content) + stream.flush()


@pytest.mark.parametrize("name", CONTENTS)
def test_expands_all_kinds_of_blocks(name: str) -> None:
    content = CONTENTS[name]
    for level in (0, 1, 6, 9):
        for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY):
            stream = deflate(content, level, strategy)
            assert inflate(stream, len(content)) == content
            assert inflate(stream, len(content) + 1) is None
            assert not content or inflate(stream, len(content) - 1) is None
            assert inflate(stream[:-1], len(content)) in (None, content)


def test_rejects_what_zlib_rejects() -> None:
    content = TEXT[:4000]
    whole = deflate(content, 9)
    for seed in range(3000):
        draw, stream = random.Random(seed), bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 5))):
            stream[draw.randrange(len(stream))] ^= 1 << draw.randrange(8)
        expander = zlib.decompressobj(-15)
        try:
            expected = expander.decompress(bytes(stream))
            if not expander.eof or len(expected) != len(content):
                expected = None
        except zlib.error:
            expected = None
        found = inflate(bytes(stream), len(content))
        # zlib also rejects codes with unused values, which this decoder accepts.
        assert found == expected or expected is None
