"""A model can be passed as path, buffer or open file; anything else is rejected."""

from __future__ import annotations

import io
import mmap
from pathlib import Path
from typing import Any

import pytest

from fourfold.errors import InputError
from fourfold.runtime.opening import path_or_bytes

CONTENT = b"\0\0\0\0TFL3 and more"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    result = tmp_path / "model.tflite"
    result.write_bytes(CONTENT)
    return result


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, io.BytesIO])
def test_reads_buffers_and_in_memory_files(make: Any) -> None:
    assert path_or_bytes(make(CONTENT)) == CONTENT


def test_reads_memory_mapped_files(path: Path) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert path_or_bytes(mapped) == CONTENT


def test_unread_file_is_opened_by_its_path(path: Path) -> None:
    with path.open("rb") as file:
        assert path_or_bytes(file) == str(path)
        file.seek(4)
        assert path_or_bytes(file) == CONTENT[4:]


def test_replaced_file_is_read_from_its_handle(path: Path) -> None:
    with path.open("rb") as file:
        path.unlink()
        path.write_bytes(b"another")
        assert path_or_bytes(file) == CONTENT


def test_expands_and_joins_paths(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(path.parent))
    assert path_or_bytes("~/model.tflite") == str(path)
    assert path_or_bytes((path, "b.bin")) == path_or_bytes([path, "b.bin"]) == f"{path}:b.bin"


@pytest.mark.parametrize(("mode", "word"), [("r", "mode 'rb'"), ("rb", r"file\.seek\(0\)")])
def test_rejects_text_files_and_files_at_their_end(path: Path, mode: str, word: str) -> None:
    with path.open(mode) as file:
        file.read()
        with pytest.raises(InputError, match=word):
            path_or_bytes(file)


@pytest.mark.parametrize(
    ("model", "word"),
    [("https://example.com/model.tflite", "is a URL"), (7, "of type int is no")],
)
def test_rejects_addresses_and_other_types(model: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        path_or_bytes(model)
