"""The container format: written sections can be read, and damage is detected."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from c_player.mutations import overlapping

from fourfold.errors import ModelError
from fourfold.plan import Container, Section, container_bytes, write_container
from fourfold.plan.container import (
    ALIGNMENT,
    ENTRY,
    HEADER,
    PAGE,
    PAGE_ALIGNED_BYTES,
    VERSION,
    container_pieces,
)

SECTIONS = (
    Section("index", b"{}"),
    Section("empty", b""),
    Section("constants", np.arange(300, dtype=np.float32)),
    Section("large", bytes(range(256)) * (PAGE_ALIGNED_BYTES // 256)),
)


def read_all(content: bytes) -> list[bytes]:
    file = Container(content, "it")
    return [bytes(file.section(number, name)) for number, name in enumerate(file.names)]


def test_written_sections_can_be_read() -> None:
    expected = [bytes(memoryview(one.data).cast("B")) if len(one.data) else b"" for one in SECTIONS]
    assert read_all(container_bytes(SECTIONS)) == expected


def test_sections_are_aligned() -> None:
    content = container_bytes(SECTIONS)
    for number in range(len(SECTIONS)):
        _, offset, size, *_ = ENTRY.unpack_from(content, HEADER.size + number * ENTRY.size)
        assert offset % (PAGE if size >= PAGE_ALIGNED_BYTES else ALIGNMENT) == 0


TEXT = b"kernel void line() { } // repeated\n" * 200


def compressed(*sections: Section) -> bytes:
    return b"".join(container_pieces(sections, compress=True))


def test_text_is_compressed_and_read_back() -> None:
    sections = (Section("text", TEXT), Section("index", b"{}"), Section("constants", TEXT))
    content = compressed(*sections)
    assert read_all(content) == [bytes(one.data) for one in sections]
    sizes = [Container(content, "it").section_size(number) for number in range(3)]
    assert sizes[0] < len(TEXT) // 10
    assert sizes[1:] == [2, len(TEXT)]  # not shorter, and not text


@pytest.mark.parametrize("size", [0, 1, -1, 1000, 2**63])
def test_wrong_sizes_before_compression_are_refused(size: int) -> None:
    content = bytearray(compressed(Section("text", TEXT)))
    entry = [*ENTRY.unpack_from(content, HEADER.size)]
    entry[5] = size if size > 1000 else len(TEXT) + size if size else 10
    ENTRY.pack_into(content, HEADER.size, *entry)
    with pytest.raises(ModelError, match="damaged"):
        read_all(resealed(content))


def test_damaged_streams_are_refused() -> None:
    content = bytearray(compressed(Section("text", TEXT)))
    entry = [*ENTRY.unpack_from(content, HEADER.size)]
    content[entry[1]] = 0xFF  # a block of an unknown kind
    entry[3] = crc32(content[entry[1] : entry[1] + entry[2]])
    ENTRY.pack_into(content, HEADER.size, *entry)
    with pytest.raises(ModelError, match="cannot be expanded"):
        read_all(resealed(content))


def test_sections_that_share_a_stream_do_not_expand_to_more_than_a_file_can_hold() -> None:
    assert len(read_all(overlapping(1))[0]) == 1 << 20
    with pytest.raises(ModelError, match="impossibly large"):
        Container(overlapping(64), "it")


def resealed(content: bytearray) -> bytes:
    """Return a file with valid checksums of its header and its table of one section."""
    struct.pack_into("<I", content, 36, crc32(content[HEADER.size : HEADER.size + ENTRY.size]))
    struct.pack_into("<I", content, 60, crc32(content[:60]))
    return bytes(content)


def test_files_equal_in_memory_containers(tmp_path: Path) -> None:
    path = tmp_path / "a.fourfold"
    size = write_container(path, SECTIONS, 0o600, sync=True)
    assert size == path.stat().st_size
    assert path.read_bytes() == container_bytes(SECTIONS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a.fourfold"]
    Container.open(path).verify()


def test_flipped_bits_are_detected_or_harmless() -> None:
    """Covers each byte; of header and table two bits each."""
    content = container_bytes(SECTIONS[:3])
    expected = read_all(content)
    for offset in range(len(content)):
        for bit in (0, 7) if offset < HEADER.size + 3 * ENTRY.size else (offset % 8,):
            damaged = bytearray(content)
            damaged[offset] ^= 1 << bit
            try:
                assert read_all(bytes(damaged)) == expected, offset
            except ModelError:
                continue


def test_rejects_other_lengths() -> None:
    content = container_bytes(SECTIONS[:3])
    for length in range(len(content)):
        with pytest.raises(ModelError):
            read_all(content[:length])
    with pytest.raises(ModelError):
        read_all(content + b"\0")


def forge_header(content: bytes, offset: int, form: str, value: int) -> bytes:
    """Change one field of the header and update its checksum."""
    data = bytearray(content)
    struct.pack_into(form, data, offset, value)
    struct.pack_into("<I", data, HEADER.size - 4, crc32(data[: HEADER.size - 4]))
    return bytes(data)


@pytest.mark.parametrize("version", [1, VERSION - 1, VERSION + 1])
def test_rejects_other_format_versions(version: int) -> None:
    with pytest.raises(ModelError, match=f"format {version}") as caught:
        Container(forge_header(container_bytes(SECTIONS), 8, "<I", version), "it")
    assert caught.value.why == f"this fourfold reads format {VERSION}"
    assert "prepare the model again" in caught.value.fix


@pytest.mark.parametrize(("offset", "form"), [(16, "<Q"), (24, "<Q"), (32, "<I")])
@pytest.mark.parametrize("value", [0, 1, 2**31, 2**32 - 1])
def test_rejects_forged_sizes(offset: int, form: str, value: int) -> None:
    with pytest.raises(ModelError):
        read_all(forge_header(container_bytes(SECTIONS), offset, form, value))


@pytest.mark.parametrize(("field", "form"), [(16, "<Q"), (24, "<Q")])
@pytest.mark.parametrize("value", [1, 2**20, 2**63, 2**64 - 64])
def test_rejects_forged_offsets(field: int, form: str, value: int) -> None:
    data = bytearray(container_bytes(SECTIONS[:1]))
    struct.pack_into(form, data, HEADER.size + field, value)
    table = data[HEADER.size : HEADER.size + ENTRY.size]
    with pytest.raises(ModelError):
        read_all(forge_header(bytes(data), 36, "<I", crc32(table)))


def test_rejects_sections_with_another_name() -> None:
    file = Container(container_bytes(SECTIONS), "it")
    for number, name in ((0, "binary"), (9, "index"), (-1, "large")):
        with pytest.raises(ModelError):
            file.section(number, name)


def test_interrupted_write_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "a.fourfold"
    write_container(path, SECTIONS, 0o600, sync=False)
    before = path.read_bytes()

    class Interrupting(bytes):
        def __len__(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_container(path, [Section("index", Interrupting(b"x"))], 0o600, sync=False)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.fourfold"]
