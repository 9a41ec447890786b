"""A file's name bounds its trust: content never gets more than its extension announces."""

from __future__ import annotations

import os
import pickle
import zipfile
from importlib import invalidate_caches
from pathlib import Path

import pytest
from command_calls import call
from docs.tiny_model import tiny_model
from onnx_writer import small_model

import fourfold
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError, InputError
from fourfold.formats import find_format, formats, identify
from fourfold.formats.trust import check_trust

RELU = small_model("Relu", {"x": (1, 4)})
# A PyTorch that does what the real one may do with a program: unpickle what is in it.
TORCH = """
import pickle, zipfile
class export:
    @staticmethod
    def load(path):
        pickle.loads(zipfile.ZipFile(path).read("archive/data.pkl"))
        raise ValueError("the program ran its code")
"""


class Attack:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A folder that exists once code of the program has run."""
    return tmp_path / "marker"


@pytest.fixture
def program(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PyTorch program that runs code when it is loaded, and a PyTorch that loads it."""
    installed = tmp_path / "installed"
    for name in ("torch", "onnxscript"):
        (installed / name).mkdir(parents=True)
        (installed / name / "__init__.py").write_text(TORCH if name == "torch" else "")
        note = installed / f"{name}-9.dist-info"
        note.mkdir()
        (note / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setenv("FOURFOLD_CACHE", "none")
    invalidate_caches()
    path = tmp_path / "program.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/archive_format", "pt2")
        archive.writestr("archive/data.pkl", pickle.dumps(Attack(marker)))
    return path


@pytest.fixture
def prepared(tmp_path: Path, device: DeviceInfo) -> Path:
    model = tmp_path / "tiny.tflite"
    model.write_bytes(tiny_model())
    path = tmp_path / "tiny.fourfold"
    fourfold.prepare(model, path, devices=device, everywhere=False, cache=None)
    return path


def test_a_program_runs_its_code_under_its_own_name(program: Path, marker: Path) -> None:
    """The attack works: without it the tests below would show nothing."""
    with pytest.raises(FourfoldError, match="the program ran its code"):
        fourfold.check(program, "null")
    assert marker.exists()


@pytest.mark.parametrize("name", ["model.onnx", "model.tflite", "model", "model.zip"])
@pytest.mark.parametrize("command", ["explain", "inspect", "check"])
def test_a_program_under_another_name_runs_no_code(
    program: Path, marker: Path, command: str, name: str
) -> None:
    other = program.rename(program.with_name(name))
    options = ["--device", "null"] if command == "check" else []
    result = call(command, other, *options)
    assert result.exit_code != 0
    assert "holds a PyTorch model under another name" in result.output
    assert not marker.exists()


def test_a_program_in_memory_needs_trust(program: Path, marker: Path) -> None:
    content = program.read_bytes()
    with pytest.raises(InputError, match="without a file name"):
        fourfold.check(content, "null")
    assert not marker.exists()
    with pytest.raises(FourfoldError, match="the program ran its code"):
        fourfold.check(content, "null", trust="all")
    assert marker.exists()


@pytest.mark.parametrize("trust", ["data", f"signed:{'0' * 64}"])
def test_a_program_is_not_data(program: Path, marker: Path, trust: str) -> None:
    with pytest.raises(InputError, match="does not allow it"):
        fourfold.check(program, "null", trust=trust)
    assert not marker.exists()


def test_the_setting_applies_to_every_command(
    program: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_TRUST", "data")
    for command in ("explain", "inspect"):
        assert "trust='data'" in call(command, program).output
    assert not marker.exists()
    call("explain", program, "--trust", "all")
    assert marker.exists()


def test_data_under_the_name_of_another_format_is_an_error(tmp_path: Path) -> None:
    for name, content in (("a.pt2", tiny_model()), ("b.tflite", RELU), ("c.fourfold", RELU)):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match="under another name") as failure:
            fourfold.check(path, "null")
        assert "its extension is that of" in failure.value.why
        fourfold.check(path, "null", trust="all")


def test_data_needs_no_extension(tmp_path: Path) -> None:
    fourfold.check(tiny_model(), "null", trust="data")
    for name in ("model", "model.bin", "MODEL.TFLITE"):
        path = tmp_path / name
        path.write_bytes(tiny_model())
        fourfold.check(path, "null", trust="data")


def test_every_converted_format_needs_its_name(tmp_path: Path) -> None:
    """The starts of files that a framework would convert, under the name of a data format."""
    starts = {"keras": b"\x89HDF\r\n\x1a\n", "tensorflow": b"\n\x08\n\x01a\x12\x03Add"}
    for folder, start in starts.items():
        path = tmp_path / f"{folder}.onnx"
        path.write_bytes(start)
        source, form = identify(str(path))
        assert form is formats()[folder]
        with pytest.raises(InputError, match="under another name"):
            check_trust(source, form, "extension")


def test_a_saved_model_is_recognized_by_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "saved.v2"
    folder.mkdir()
    (folder / "saved_model.pbtxt").write_text("")
    assert find_format(str(folder)).name == "TensorFlow"
    for path in (folder, folder / "saved_model.pbtxt"):
        source, form = identify(str(path))
        check_trust(source, form, "extension")
        with pytest.raises(InputError, match="does not allow it"):
            check_trust(source, form, "data")
    other = folder.rename(tmp_path / "saved.onnx")
    for path in (str(other), f"{other}/"):
        source, form = identify(path)
        with pytest.raises(InputError, match="under another name"):
            check_trust(source, form, "extension")


@pytest.mark.parametrize("command", ["explain", "inspect", "check", "run", "bench"])
def test_a_prepared_file_under_another_name_is_refused(prepared: Path, command: str) -> None:
    other = prepared.rename(prepared.with_name("model.onnx"))
    result = call(command, other)
    assert "is a prepared file under another name" in result.output


def test_a_prepared_file_under_another_name_needs_trust(prepared: Path, device: DeviceInfo) -> None:
    other = prepared.rename(prepared.with_name("model.onnx"))
    for source in (other, other.read_bytes()):
        with pytest.raises(InputError, match="is a prepared file"):
            fourfold.Session(source, device, cache=None)
        with fourfold.Session(source, device, cache=None, trust="all") as session:
            assert session.origin == "file"


def test_prepare_writes_only_names_that_open(tmp_path: Path) -> None:
    model = tmp_path / "tiny.tflite"
    model.write_bytes(tiny_model())
    with pytest.raises(InputError, match=r"name it '.*app.fourfold'"):
        fourfold.prepare(model, tmp_path / "app.onnx", devices="null")


def test_levels_of_trust_are_checked() -> None:
    key = "AB" * 32
    assert Config.from_environment({}).trust == "extension"
    assert Config.from_environment({"FOURFOLD_TRUST": f"signed:{key}"}).trust == f"signed:{key}"
    for wrong in ("none", "signed", "signed:", "signed:12", f"signed:{key},", f"signed:{key} "):
        with pytest.raises(InputError, match="FOURFOLD_TRUST is"):
            Config.from_environment({"FOURFOLD_TRUST": wrong})
    with pytest.raises(InputError, match="FOURFOLD_BINARIES is 'never'"):
        Config.from_environment({"FOURFOLD_BINARIES": "never"})
