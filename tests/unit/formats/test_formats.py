"""Formats are registered as folders, selected by content and path, and imported lazily."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fourfold
from fourfold import formats
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, ModelError
from fourfold.formats import Format, Model, ModelSource, ReadOptions, read_model
from fourfold.formats.source import open_source
from fourfold.graph import Graph

FOLDERS = sorted(path.parent.name for path in Path(formats.__file__).parent.glob("*/__init__.py"))
WATCH = """
import sys
sys.path.insert(0, sys.argv[1])
from fourfold.formats import formats
assert len(formats()) > 0
print(*(name for name in sys.modules if name.startswith("fourfold.formats.tflite.")))
"""
READER = "a_reader_of_the_tests"


class FakeReader:
    """A fake reader module that records its sources."""

    def __init__(self) -> None:
        self.sources: list[ModelSource] = []

    def read(self, source: ModelSource, options: ReadOptions) -> Model:
        self.sources.append(source)
        return Model(Graph((), (), (), {}), (), ())

    def operators(self) -> dict[str, str]:
        return {"Nothing": "nothing."}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> FakeReader:
    fake = FakeReader()
    monkeypatch.setitem(sys.modules, READER, fake)  # type: ignore[arg-type]
    return fake


def test_registry_lists_every_format_folder() -> None:
    assert sorted(formats.formats()) == FOLDERS
    assert "tflite" in FOLDERS


@pytest.mark.parametrize("name", FOLDERS)
def test_format_describes_itself(name: str) -> None:
    form = formats.formats()[name]
    assert isinstance(form, Format)
    assert form.name.lower() == name
    assert all(extension.startswith(".") for extension in form.extensions)
    if form.converter is None:
        assert form.reader == f"fourfold.formats.{name}.reader"
        assert callable(import_module(form.reader).read)
        assert form.operators()
    else:
        assert (form.reader, form.operators()) == (None, {})
        assert form.converter.scripts[0] == f"fourfold.formats.{name}.script"
        assert form.converter.target in [one.name for one in formats.formats().values()]
        assert "def convert(path: str) -> bytes" in form.converter.source


def test_readers_are_imported_lazily() -> None:
    folder = str(Path(fourfold.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", WATCH, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_model_has_the_name_and_engine_of_its_format(
    reader: FakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = Format("Made", (".made",), lambda source: True, READER, cpu_engine="abacus")
    monkeypatch.setattr(formats, "formats", lambda: {"made": form})
    model = read_model(b"anything")
    assert (model.format, model.cpu_engine) == ("Made", "abacus")
    assert form.operators() == {"Nothing": "nothing."}


def test_extension_decides_between_matching_formats(
    reader: FakeReader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = Format("First", (".one",), lambda source: True, READER)
    second = Format("Second", (".two", ".second"), lambda source: True, READER)
    monkeypatch.setattr(formats, "formats", lambda: {"first": first, "second": second})
    for name, expected in (("m.one", "First"), ("m.SECOND", "Second"), ("m.bin", "First")):
        (tmp_path / name).write_bytes(b"content")
        assert read_model(tmp_path / name).format == expected


def test_reader_may_accept_a_folder(
    reader: FakeReader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "weights.bin").write_bytes(b"1234")

    def matches(source: ModelSource) -> bool:
        return source.is_folder and (Path(source.path or "") / "weights.bin").exists()

    form = Format("Folder", (".bin",), matches, READER)
    monkeypatch.setattr(formats, "formats", lambda: {"folder": form})
    assert read_model(tmp_path).format == "Folder"
    (source,) = reader.sources
    assert (source.content, source.path) == (b"", str(tmp_path))
    weights = open_source(Path(source.path or "") / "weights.bin")
    assert weights.content[:] == b"1234"
    with pytest.raises(InputError, match="a folder that holds no model"):
        read_model(tmp_path.parent)


@pytest.mark.parametrize("cache", [None, "memory"])
def test_error_for_a_folder_without_a_model_lists_formats(
    tmp_path: Path, device: DeviceInfo, cache: str | None
) -> None:
    """Covers the cache, which lists the files of a model first."""
    (tmp_path / "readme.txt").write_text("nothing")
    with pytest.raises(InputError, match="a folder that holds no model") as caught:
        fourfold.Session(tmp_path, device, cache=cache)
    assert "TFLite (.tflite)" in caught.value.fix
    assert "TensorFlow (.pb, .pbtxt)" in caught.value.fix


def test_error_for_unknown_content_lists_formats() -> None:
    with pytest.raises(ModelError, match=r"pass a file of .*TFLite \(\.tflite\)"):
        read_model(b"anything at all")
