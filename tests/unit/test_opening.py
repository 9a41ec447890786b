"""What a caller may pass as a model: paths, buffers and open files, and words on what is none."""

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
    found = tmp_path / "model.tflite"
    found.write_bytes(CONTENT)
    return found


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, io.BytesIO])
def test_buffers_and_files_in_memory_are_their_bytes(make: Any) -> None:
    assert path_or_bytes(make(CONTENT)) == CONTENT


def test_a_mapped_file_is_its_bytes(path: Path) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert path_or_bytes(mapped) == CONTENT


def test_an_open_file_is_its_path_as_long_as_nothing_was_read(path: Path) -> None:
    with path.open("rb") as file:
        assert path_or_bytes(file) == str(path)
        file.seek(4)
        assert path_or_bytes(file) == CONTENT[4:]


def test_a_file_that_was_replaced_is_what_was_opened(path: Path) -> None:
    with path.open("rb") as file:
        path.unlink()
        path.write_bytes(b"another")
        assert path_or_bytes(file) == CONTENT


def test_paths(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(path.parent))
    assert path_or_bytes("~/model.tflite") == str(path)
    assert path_or_bytes((path, "b.bin")) == path_or_bytes([path, "b.bin"]) == f"{path}:b.bin"


@pytest.mark.parametrize(("mode", "word"), [("r", "mode 'rb'"), ("rb", r"file\.seek\(0\)")])
def test_a_file_that_gives_no_bytes_is_told_so(path: Path, mode: str, word: str) -> None:
    with path.open(mode) as file:
        file.read()
        with pytest.raises(InputError, match=word):
            path_or_bytes(file)


@pytest.mark.parametrize(
    ("model", "word"),
    [("https://example.com/model.tflite", "is a URL"), (7, "of type int is no")],
)
def test_what_is_no_model_is_told_so(model: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        path_or_bytes(model)
