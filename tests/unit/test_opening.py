"""A model can be passed as path, buffer or open file; anything else is rejected."""

from __future__ import annotations

import io
import mmap
from pathlib import Path
from typing import Any

import pytest

import fourfold
from fourfold import session
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


def test_a_mistake_of_the_caller_has_a_short_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, wrong = fourfold.sample("colors"), {"nowhere": (1, 2)}
    with caplog.at_level("DEBUG", "fourfold"), pytest.raises(InputError) as caught:
        fourfold.Session(model, device="cpu", shapes=wrong)
    assert "no input 'nowhere'" in str(caught.value)
    assert [entry.path.name for entry in caught.traceback] == [Path(__file__).name, "session.py"]
    assert "declare_inputs" in caplog.text
    with pytest.raises(InputError) as caught:
        fourfold.Session("missing.tflite", device="cpu")
    assert caught.value.__suppress_context__
    assert len(caught.traceback) == 2


def test_other_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(session, "InstanceCache", fail)
    with pytest.raises(RuntimeError) as caught:
        fourfold.Session(fourfold.sample("colors"), device="cpu")
    assert len(caught.traceback) > 2
