"""The file form: what was written comes back, and no damage goes unseen."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from fourfold.errors import ModelError
from fourfold.plan import Container, Section, container_bytes, write_container
from fourfold.plan.container import ALIGNMENT, ENTRY, HEADER, PAGE, PAGE_ALIGNED_BYTES, VERSION

SECTIONS = (
    Section("index", b"{}"),
    Section("empty", b""),
    Section("constants", np.arange(300, dtype=np.float32)),
    Section("large", bytes(range(256)) * (PAGE_ALIGNED_BYTES // 256)),
)


def read_all(content: bytes) -> list[bytes]:
    file = Container(content, "it")
    return [bytes(file.section(number, name)) for number, name in enumerate(file.names)]


def test_what_was_written_comes_back() -> None:
    wanted = [bytes(memoryview(one.data).cast("B")) if len(one.data) else b"" for one in SECTIONS]
    assert read_all(container_bytes(SECTIONS)) == wanted


def test_sections_are_aligned() -> None:
    content = container_bytes(SECTIONS)
    for number in range(len(SECTIONS)):
        _, offset, size, _, _ = ENTRY.unpack_from(content, HEADER.size + number * ENTRY.size)
        assert offset % (PAGE if size >= PAGE_ALIGNED_BYTES else ALIGNMENT) == 0


def test_the_same_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.fourfold"
    size = write_container(path, SECTIONS, 0o600, sync=True)
    assert size == path.stat().st_size
    assert path.read_bytes() == container_bytes(SECTIONS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a.fourfold"]
    Container.open(path).verify()


def test_every_flipped_bit_is_seen_or_harmless() -> None:
    """Each byte of header and table, and a stride through the rest."""
    content = container_bytes(SECTIONS[:3])
    wanted = read_all(content)
    for place in range(len(content)):
        for bit in (0, 7) if place < HEADER.size + 3 * ENTRY.size else (place % 8,):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            try:
                assert read_all(bytes(damaged)) == wanted, place
            except ModelError:
                continue


def test_every_length_but_the_right_one_is_refused() -> None:
    content = container_bytes(SECTIONS[:3])
    for length in range(len(content)):
        with pytest.raises(ModelError):
            read_all(content[:length])
    with pytest.raises(ModelError):
        read_all(content + b"\0")


def forged(content: bytes, place: int, form: str, value: int) -> bytes:
    """A file with one field of the header changed and its checksum made to fit."""
    data = bytearray(content)
    struct.pack_into(form, data, place, value)
    struct.pack_into("<I", data, HEADER.size - 4, crc32(data[: HEADER.size - 4]))
    return bytes(data)


@pytest.mark.parametrize("version", [1, VERSION - 1, VERSION + 1])
def test_another_format_is_refused_in_words(version: int) -> None:
    with pytest.raises(ModelError, match=f"format {version}") as caught:
        Container(forged(container_bytes(SECTIONS), 8, "<I", version), "it")
    assert caught.value.why == f"this fourfold reads format {VERSION}"
    assert "prepare the model again" in caught.value.fix


@pytest.mark.parametrize(("place", "form"), [(16, "<Q"), (24, "<Q"), (32, "<I")])
@pytest.mark.parametrize("value", [0, 1, 2**31, 2**32 - 1])
def test_forged_sizes_are_refused(place: int, form: str, value: int) -> None:
    with pytest.raises(ModelError):
        read_all(forged(container_bytes(SECTIONS), place, form, value))


@pytest.mark.parametrize(("field", "form"), [(16, "<Q"), (24, "<Q")])
@pytest.mark.parametrize("value", [1, 2**20, 2**63, 2**64 - 64])
def test_forged_offsets_are_refused(field: int, form: str, value: int) -> None:
    data = bytearray(container_bytes(SECTIONS[:1]))
    struct.pack_into(form, data, HEADER.size + field, value)
    table = data[HEADER.size : HEADER.size + ENTRY.size]
    with pytest.raises(ModelError):
        read_all(forged(bytes(data), 36, "<I", crc32(table)))


def test_a_section_must_have_its_name() -> None:
    file = Container(container_bytes(SECTIONS), "it")
    for number, name in ((0, "binary"), (9, "index"), (-1, "large")):
        with pytest.raises(ModelError):
            file.section(number, name)


def test_an_interrupted_write_leaves_what_was_there(tmp_path: Path) -> None:
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
