"""Files that belong to a model stay in its folder, links included, and are regular files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from caffe_writer import input_text, layer_text, write_net
from paddle_cases import CASES
from paddle_writer import parameter, program_file, write_model
from stored_answers import numbers

from fourfold import Session
from fourfold.errors import FourfoldError, InputError, ModelError
from fourfold.formats import model_files, read_model
from fourfold.formats.protobuf import MessageWriter
from fourfold.store.prepared import is_prepared

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
PADDLE = CASES["matmul_weights"].program


def onnx_model(folder: Path, location: str = "w.bin") -> tuple[Path, Path]:
    """Write y = x + w with w in an external file, in the protobuf fields of ONNX."""

    def entry(key: str, text: str) -> MessageWriter:
        return MessageWriter().text(1, key).text(2, text)

    def port(name: str) -> MessageWriter:
        size = MessageWriter().message(1, MessageWriter().integer(1, 4))
        tensor = MessageWriter().integer(1, 1).message(2, size)
        return MessageWriter().text(1, name).message(2, MessageWriter().message(1, tensor))

    weights = MessageWriter().integer(1, 4).integer(2, 1).text(8, "w").integer(14, 1)
    weights.message(13, entry("location", location))
    node = MessageWriter().text(1, "x").text(1, "w").text(2, "y").text(4, "Add")
    graph = MessageWriter().message(1, node).text(2, "g").message(5, weights)
    graph.message(11, port("x")).message(12, port("y"))
    opset = MessageWriter().text(1, "").integer(2, 17)
    content = MessageWriter().integer(1, 8).message(7, graph).message(8, opset)
    (folder / "m.onnx").write_bytes(content.finish())
    (folder / "w.bin").write_bytes(bytes(16))
    return folder / "m.onnx", folder / "w.bin"


def paddle_model(folder: Path) -> tuple[Path, Path]:
    path = write_model(folder, PADDLE)
    return path, path.with_suffix(".pdiparams")


def old_paddle_model(folder: Path) -> tuple[Path, Path]:
    (folder / "__model__").write_bytes(program_file(PADDLE))
    ((name, array),) = PADDLE.parameters.items()
    (folder / name).write_bytes(parameter(array))
    return folder / "__model__", folder / name


def caffe_model(folder: Path) -> tuple[Path, Path]:
    conv = "convolution_param { num_output: 3 kernel_size: 3 }"
    text = input_text(1, 2, 5, 5) + layer_text("Convolution", conv)
    path = write_net(folder, text, {"y": [numbers((3, 2, 3, 3)), numbers((3,), 1)]})
    return path, path.with_suffix(".caffemodel")


def saved_model(folder: Path) -> tuple[Path, Path]:
    """Write the files of a SavedModel, which TensorFlow would read: only their places are real."""
    (folder / "variables").mkdir()
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.index").write_bytes(b"values")
    return folder / "saved_model.pb", folder / "variables" / "variables.index"


WRITERS = (onnx_model, paddle_model, old_paddle_model, caffe_model, saved_model)
with_each_format = pytest.mark.parametrize("write", WRITERS, ids=lambda one: one.__name__)
Write = Callable[[Path], tuple[Path, Path]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def open_model(path: Path) -> None:
    """List the files of a model, as the cache does, and read it where that needs no framework."""
    model_files(path)
    if path.name != "saved_model.pb":
        read_model(path)


@with_each_format
def test_refuses_links_out_of_the_folder(write: Write, folder: Path, tmp_path: Path) -> None:
    model, side = write(folder)
    open_model(model)
    side.rename(tmp_path / "secret")
    side.symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="outside the model's folder"):
        open_model(model)


@with_each_format
def test_follows_links_inside_the_folder(write: Write, folder: Path) -> None:
    model, side = write(folder)
    side.rename(side.with_name("linked"))
    side.symlink_to("linked")
    open_model(model)


@with_each_format
def test_follows_links_of_download_caches(write: Write, folder: Path, tmp_path: Path) -> None:
    """All files of the model, also its own, are links to files of one other folder."""
    model, side = write(folder)
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for number, path in enumerate((model, side)):
        path.rename(blobs / str(number))
        path.symlink_to(os.path.relpath(blobs / str(number), path.parent))
    open_model(model)


@with_each_format
def test_reads_models_below_a_linked_folder(write: Write, folder: Path, tmp_path: Path) -> None:
    model, _ = write(folder)
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    open_model(tmp_path / "link" / model.name)


@needs_pipes
@with_each_format
def test_refuses_pipes_without_waiting(write: Write, folder: Path) -> None:
    model, side = write(folder)
    side.unlink()
    os.mkfifo(side)
    with pytest.raises(FourfoldError):
        open_model(model)
    if write is not saved_model:
        with pytest.raises(FourfoldError):
            read_model(model)


def test_refuses_linked_folders_of_a_saved_model(folder: Path, tmp_path: Path) -> None:
    model, side = saved_model(folder)
    shutil.move(side.parent, tmp_path / "elsewhere")
    side.parent.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(ModelError, match="outside the model's folder"):
        model_files(model)


def test_a_separator_in_a_name_does_not_hide_a_link(folder: Path, tmp_path: Path) -> None:
    """Several files are passed as one path with separators; a name in a model is one name."""
    model, side = onnx_model(folder, f"w.bin{os.pathsep}x")
    side.rename(tmp_path / "secret")
    side.symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="cannot be opened"):
        read_model(model)


@needs_pipes
def test_refuses_a_pipe_as_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    os.mkfifo(path)
    assert not is_prepared(str(path))
    with pytest.raises(InputError, match="not a regular file"):
        read_model(path)
    with pytest.raises(InputError, match="not a regular file"):
        Session(path, device="cpu")
