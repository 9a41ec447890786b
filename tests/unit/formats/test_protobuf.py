"""The protobuf wire format: written messages can be read, and damage raises ValueError."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from fourfold.formats.protobuf import MAX_DEPTH, Message, MessageWriter, varint

LIMITS = (0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63))


def read(writer: MessageWriter) -> Message:
    return Message(writer.finish())


@pytest.mark.parametrize("value", LIMITS)
def test_integers_round_trip(value: int) -> None:
    assert read(MessageWriter().integer(3, value)).integer(3) == value


def test_reads_known_bytes() -> None:
    message = Message(bytes.fromhex("089601 1202 6869 1d0000803f"))
    assert (message.integer(1), message.text(2), message.float32(3)) == (150, "hi", 1.0)
    assert list(message) == [1, 2, 3]


def test_writes_known_bytes() -> None:
    writer = MessageWriter().integer(1, 150).text(2, "hi").float32(3, 1.0)
    assert writer.finish() == bytes.fromhex("089601 1202 6869 1d0000803f")
    assert writer.size == len(writer.finish())


def test_absent_fields_have_defaults() -> None:
    message = Message(b"")
    assert not message.has(1)
    assert (message.integer(1), message.integer(1, 7), message.float32(1)) == (0, 7, 0.0)
    assert (message.text(1), message.block(1), message.message(1)) == ("", None, None)
    assert message.integers(1).dtype == np.int64
    assert message.integers(1).size == message.floats(1).size == message.doubles(1).size == 0


def test_reads_packed_and_unpacked_integers() -> None:
    packed = MessageWriter().integers(1, LIMITS)
    single = MessageWriter()
    for value in LIMITS:
        single.integer(1, value)
    both = MessageWriter().integers(1, LIMITS[:4]).integer(1, LIMITS[4]).integers(1, LIMITS[5:])
    for writer in (packed, single, both):
        assert tuple(read(writer).integers(1)) == LIMITS


def test_reads_packed_and_unpacked_floats() -> None:
    packed = MessageWriter().floats(1, [1, 2.5])
    single = MessageWriter().float32(1, 1).float32(1, 2.5)
    for writer in (packed, single):
        assert read(writer).floats(1).tolist() == [1, 2.5]
    doubles = MessageWriter().block(1, struct.pack("<2d", 0.1, -1))
    assert read(doubles).doubles(1).tolist() == [0.1, -1]


def test_last_repeated_scalar_wins() -> None:
    assert read(MessageWriter().integer(1, 5).integer(1, 6)).integer(1) == 6


def test_reads_nested_messages() -> None:
    inner = MessageWriter().text(1, "inside")
    outer = read(MessageWriter().message(2, inner).message(2, MessageWriter()).texts(3, ["a", "b"]))
    assert [message.text(1) for message in outer.messages(2)] == ["inside", ""]
    assert outer.texts(3) == ("a", "b")


def test_blocks_are_views_of_the_content() -> None:
    content = MessageWriter().message(1, MessageWriter().block(9, bytes(1000))).finish()
    inner = Message(content).message(1)
    assert inner is not None
    block = inner.block(9)
    assert block is not None
    assert block.obj is content
    assert np.shares_memory(np.frombuffer(block, np.uint8), np.frombuffer(content, np.uint8))


def test_invalid_utf8_is_escaped() -> None:
    assert Message(MessageWriter().block(1, b"a\xff").finish()).text(1) == "a\\xff"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x08", "past the end"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "more than 10 bytes"),
        (b"\x12\x05ab", "has 5 bytes"),
        (b"\x12" + varint(2**63), "bytes, but only 0 follow"),
        (b"\x0d\x00\x00", "has 4 bytes"),
        (b"\x00\x01", "not the start of a field"),
        (b"\x0b\x0c", "not the start of a field"),
        (b"\x0e", "not the start of a field"),
    ],
)
def test_rejects_damaged_messages(content: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Message(content)


def test_rejects_unexpected_wire_types() -> None:
    message = Message(MessageWriter().integer(1, 5).text(2, "abc").finish())
    for read_it in (
        message.text,
        message.float32,
        message.floats,
        message.doubles,
        message.message,
    ):
        with pytest.raises(ValueError, match="field 1 is a number"):
            read_it(1)
    with pytest.raises(ValueError, match="field 2 is a block"):
        message.integer(2)
    with pytest.raises(ValueError, match="3 bytes are not a list"):
        message.floats(2)


@pytest.mark.parametrize("block", [b"\x80", b"\x01\x80", b"\xff" * 11 + b"\x01"])
def test_rejects_damaged_lists(block: bytes) -> None:
    message = Message(MessageWriter().block(1, block).finish())
    with pytest.raises(ValueError, match=r"in a list|of a list"):
        message.integers(1)


def test_rejects_deep_nesting() -> None:
    content = b""
    for _ in range(5000):
        content = b"\x0a" + varint(len(content)) + content
    with pytest.raises(ValueError, match=f"more than {MAX_DEPTH} deep"):
        _descend(Message(content))


def _descend(message: Message | None) -> None:
    while message is not None:
        message = message.message(1)


def test_random_bytes_are_a_message_or_a_value_error() -> None:
    source = random.Random(1)
    for _ in range(3000):
        content = source.randbytes(source.randrange(40))
        try:
            message = Message(content)
            for field in message:
                for accessor in (message.integers, message.floats, message.texts, message.message):
                    accessor(field)
        except ValueError:
            continue
