"""Formats that need conversion, and files that look like them, are recognized by content."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from onnx_writer import small_model

from fourfold.errors import InputError, ModelError
from fourfold.formats import find_format, formats, model_files, read_model
from fourfold.formats.protobuf import MessageWriter

HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(32)
NODE = MessageWriter().text(1, "image")
NO_GRAPH = MessageWriter().message(1, NODE).finish()
GRAPH = MessageWriter().message(1, NODE.text(2, "Placeholder")).finish()


def archive(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in names:
            file.writestr(name, name)
    return content.getvalue()


KERAS = archive("metadata.json", "config.json", "model.weights.h5")
PROGRAM = archive("net/data/weights/weight_0", "net/models/model.json", "net/archive_format")
OLD_PROGRAM = archive("serialized_exported_program.json", "serialized_state_dict.pt", "version")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (KERAS, "Keras"),
        (HDF5, "Keras"),
        (PROGRAM, "PyTorch"),
        (OLD_PROGRAM, "PyTorch"),
        (GRAPH, "TensorFlow"),
    ],
    ids=["keras", "hdf5", "pt2", "old pt2", "graph"],
)
def test_recognizes_files_by_content(content: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(content)
    for model in (content, tmp_path / "model.bin"):
        form = find_format(model)
        assert form.name == name
        assert form.converter is not None


def test_saved_model_consists_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    (tmp_path / "assets" / "words").mkdir(parents=True)
    names = ["saved_model.pb", "variables/variables.index", "assets/words/list.txt"]
    for name in (*names, "readme.txt"):
        (tmp_path / name).write_bytes(b"\x08\x01")
    for model in (tmp_path, tmp_path / "saved_model.pb"):
        assert find_format(model).name == "TensorFlow"
        own = [path for path in model_files(model) if path.startswith(str(tmp_path))]
        assert own == [str(tmp_path / name) for name in names]


@pytest.mark.parametrize(
    ("content", "why", "fix"),
    [
        (archive("net/data.pkl", "net/data/0"), "a PyTorch pickle", "torch.export.save"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a pickle", "torch.export.save"),
        (
            archive("net/data.pkl", "net/constants.pkl", "net/code/__torch__.py"),
            "a TorchScript archive",
            "fourfold.from_torch",
        ),
        (archive("net/model.tflite"), "with a model in it", "unpack it, and pass net/model.tflite"),
        (archive("config.json"), "without a model", "pass a file of"),
        (KERAS[:200], "damaged or truncated", "save it again"),
        (b"FOURFOLD and more", "a prepared file", "pass the model"),
        (b"", "empty", "again"),
        (NO_GRAPH, "not a TensorFlow graph", "under its own name"),
        (b"\x08\x01\x12\x00", "not an ONNX model", "SavedModel as its folder"),
    ],
    ids=[
        *("zip pickle", "pickle", "script", "zip", "other zip", "cut", "prepared"),
        *("empty", "graph", "saved"),
    ],
)
def test_rejects_other_files_with_a_reason_and_a_fix(content: bytes, why: str, fix: str) -> None:
    with pytest.raises(ModelError, match="not a model that can be read") as caught:
        find_format(content)
    assert why in caught.value.why
    assert fix in caught.value.fix


@pytest.mark.parametrize("content", [KERAS, PROGRAM, GRAPH], ids=["keras", "pt2", "graph"])
def test_damaged_files_are_recognized_or_rejected(content: bytes) -> None:
    generator = random.Random(0)
    for _ in range(500):
        damaged = bytearray(content)
        for _ in range(generator.randint(1, 4)):
            offset = generator.randrange(len(damaged))
            damaged[offset : offset + generator.randint(0, 2)] = generator.randbytes(1)
        with suppress(ModelError):
            find_format(bytes(damaged))


def test_onnx_file_is_recognized_as_onnx() -> None:
    assert find_format(small_model("Relu", {"x": (1, 2)})).name == "ONNX"


def test_rejects_reading_without_conversion() -> None:
    with pytest.raises(InputError, match="Keras models must be converted"):
        read_model(KERAS)


def test_recognizing_a_model_imports_no_framework(tmp_path: Path) -> None:
    (tmp_path / "net.keras").write_bytes(KERAS)
    code = """
import sys
from fourfold.formats import find_format, model_files
form = find_format(sys.argv[1])
model_files(sys.argv[1])
form.converter.version, form.converter.missing, form.converter.source
print(*({"tensorflow", "keras", "torch", "h5py", "zipfile"} & {*sys.modules}))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "net.keras")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["zipfile"]  # a Keras file is a zip archive


def test_unreadable_folder_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.listdir", refuse)
    with pytest.raises(InputError, match="cannot open") as caught:
        find_format(tmp_path)
    assert "Permission denied" in caught.value.why


def test_every_conversion_target_has_a_reader() -> None:
    by_name = {form.name: form for form in formats().values()}
    for form in by_name.values():
        if form.converter is not None:
            assert by_name[form.converter.target].reader is not None
