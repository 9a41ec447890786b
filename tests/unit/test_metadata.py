"""Model metadata is cached with plans, shown by commands, and used to normalize images."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import metadata_writer as about
import numpy as np
import pytest
import tflite_writer as writer
from click.testing import CliRunner, Result
from PIL import Image

import fourfold
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.graph.metadata import ModelMetadata, Normalization
from fourfold.options import CompileOptions
from fourfold.processing.pixels import Pixels
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model

LABELS = ("cat", "dog", "bird", "fish")
MEAN, STD = (10.0, 20.0, 30.0), (2.0, 4.0, 8.0)
SIZE = (5, 4)


def animal_classifier(color: int = 1, scaled: bool = True) -> bytes:
    """Return a model that multiplies the mean pixel by a matrix: four scores, with labels."""
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    tensors = [
        writer.Tensor("x", (1, *SIZE, 3)),
        writer.constant("axes", [1, 2]),
        writer.Tensor("mean", (1, 3)),
        writer.Tensor("w", weights.shape, data=weights),
        writer.Tensor("y", (1, 4)),
    ]
    operators = [
        writer.Operator("MEAN", ["x", "axes"], ["mean"], "ReducerOptions"),
        writer.Operator("FULLY_CONNECTED", ["mean", "w", None], ["y"], "FullyConnectedOptions"),
    ]
    units = [about.unit(about.NORMALIZATION, {0: [*MEAN], 1: [*STD]})] if scaled else []
    picture = about.tensor("picture", content=about.image(color), units=units)
    files = [about.file("labels.txt", about.AXIS_LABELS, "en")]
    scores = about.tensor("animal", description="which one it is", files=files)
    notes = {"TFLITE_METADATA": about.flatbuffer(about.model("animals", [picture], [scores]))}
    ways = [writer.Signature("look", {"photo": 0}, {"animal": 4})]
    result = writer.write(tensors, operators, ["x"], ["y"], metadata=notes, signatures=ways)
    return result + about.archive({"labels.txt": "\n".join(LABELS).encode()})


def photograph() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (1, *SIZE, 3), np.uint8)


def expected_scores(picture: np.ndarray) -> np.ndarray:
    real = (picture - np.array(MEAN)) / np.array(STD)
    weights = np.linspace(-1, 1, 12).reshape(4, 3)
    return np.asarray(real.mean((1, 2)) @ weights.T)


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "animals.tflite"
    path.write_bytes(animal_classifier())
    return path


def check_metadata(session: fourfold.Session) -> None:
    """Check the metadata of this model, independent of the session's source."""
    result = session.metadata
    assert (result.name, result.author, result.problems) == ("animals", "the author", ())
    assert result.inputs[0].normalization == Normalization(MEAN, STD)
    assert session.outputs[0].labels == LABELS
    assert session.outputs[0].description == "which one it is"
    assert session.inputs[0].labels == ()
    assert list(session.signatures) == ["look"]


@pytest.mark.parametrize("target", ["device", "cpu"])
def test_metadata_is_available_without_the_model_file(
    model: Path, device: DeviceInfo, tmp_path: Path, target: str
) -> None:
    device_or_cpu = device if target == "device" else "cpu"
    for origin in ("model", "store"):
        with fourfold.Session(model, device_or_cpu, cache=tmp_path / "store") as session:
            assert session.origin == origin
            model.rename(tmp_path / "gone")
            check_metadata(session)
            (tmp_path / "gone").rename(model)


def test_prepared_file_contains_metadata(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    file, draft = tmp_path / "m.fourfold", Draft()
    prepare_model(draft, model, device, CompileOptions(), {})
    draft.write(file)
    model.unlink()
    with fourfold.Session(file, device, cache=None) as session:
        check_metadata(session)
    report = json.loads(call("inspect", file, "--json").stdout)
    assert report["models"][0]["metadata"]["name"] == "animals"
    assert list(report["models"][0]["signatures"]) == ["look"]
    shown = call("inspect", file).stdout
    assert "4 labels in en: cat | dog | bird …" in shown
    assert "look" in shown


def test_warm_start_does_not_read_metadata(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    """Covers starts from the cache and from a prepared file."""
    file, draft = tmp_path / "m.fourfold", Draft()
    prepare_model(draft, model, device, CompileOptions(), {})
    draft.write(file)
    with fourfold.Session(model, device, cache=tmp_path / "store"):
        pass
    for source in (file, model):
        code = f"""
import sys, numpy, fourfold
store = {str(tmp_path / "store")!r}
with fourfold.Session({str(source)!r}, {device.index}, cache=store) as session:
    session.run(numpy.zeros({(1, *SIZE, 3)}, numpy.float32))
    assert session.hit and "fourfold.graph.metadata" not in sys.modules
    assert session.outputs[0].labels and "fourfold.graph.metadata" in sys.modules
"""
        subprocess.run([sys.executable, "-c", code], check=True)


def test_tensor_info_does_not_keep_the_session_alive(device: DeviceInfo) -> None:
    session = fourfold.Session(animal_classifier(), device, cache=None)
    info, instance = session.outputs[0], weakref.ref(session._instance)
    session.close()
    del session
    gc.collect()
    assert instance() is None
    assert info.labels == LABELS


def test_reads_pixels_from_metadata(device: DeviceInfo) -> None:
    picture = photograph()
    with fourfold.Session(animal_classifier(), device, cache=None) as session:
        pixels = Pixels.from_metadata(session)
        assert Pixels.from_metadata(session.metadata) == pixels == Pixels(MEAN, STD)
        assert Pixels.from_metadata(session, "picture", "bgra") == Pixels(MEAN, STD, "bgra")
        fitted = Pixels.from_metadata(session, order="nv12", fit="crop", resize="area")
        assert fitted == Pixels(MEAN, STD, "nv12", fit="crop", resize="area")
        with pytest.raises(InputError, match="do not say"):
            Pixels.from_metadata(session, "other")
    with fourfold.Session(animal_classifier(), device, cache=None, pixels=pixels) as session:
        output = session.run(picture)["y"]
    np.testing.assert_allclose(output, expected_scores(picture), rtol=1e-4)


def test_pixels_auto_uses_metadata(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    picture, file = photograph(), tmp_path / "m.fourfold"
    draft = Draft()
    prepare_model(draft, model, device, CompileOptions(), {})
    draft.write(file)
    with pytest.raises(InputError, match="was not prepared for pixels auto"):
        fourfold.Session(file, device, cache=None, pixels="auto")
    prepare_model(draft, model, device, CompileOptions(pixels="auto"), {})
    draft.write(file)
    for source, origin in ((model, "model"), (model, "store"), (file, "file")):
        store = tmp_path / "store"
        with fourfold.Session(source, device, cache=store, pixels="auto") as session:
            assert session.origin == origin
            assert session.inputs[0].pixels == str(Pixels(MEAN, STD))
            np.testing.assert_allclose(
                session.run(picture)["y"], expected_scores(picture), rtol=1e-4
            )


def test_pixels_auto_supports_another_batch_size(device: DeviceInfo) -> None:
    shapes = {"x": (2, *SIZE, 3)}
    with fourfold.Session(
        animal_classifier(), device, shapes=shapes, cache=None, pixels="auto"
    ) as session:
        picture = np.repeat(photograph(), 2, 0)
        np.testing.assert_allclose(session.run(picture)["y"], expected_scores(picture), rtol=1e-4)


def test_pixels_auto_rejects_models_without_normalization(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="finds no picture"):
        fourfold.Session(animal_classifier(scaled=False), device, cache=None, pixels="auto")


def test_run_command_normalizes_images_from_metadata(
    model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    picture = photograph()
    Image.fromarray(picture[0]).save(tmp_path / "p.png")
    words = ("run", model, "--device", device.index, "--input", tmp_path / "p.png", "--json")
    result = call(*words)
    text = "pixels minus 10 20 30, divided by 2 4 8, as the model's metadata say"
    assert text in result.stderr
    report = json.loads(result.stdout)
    assert report["preprocessing"]["text"] == text
    (row,), best = report["outputs"], report["answer"]["classes"]
    scores = expected_scores(picture)[0]
    order = np.argsort(-scores)
    assert [one["label"] for one in best] == [LABELS[place] for place in order]
    np.testing.assert_allclose([one["score"] for one in best], scores[order], rtol=1e-4)
    by_bytes = json.loads(call(*words, "--pixels", "auto").stdout)["outputs"][0]
    np.testing.assert_allclose(by_bytes["max"], row["max"], rtol=1e-4)
    stated = call(*words, "--range", "0,1")
    assert "metadata" not in stated.stderr
    assert json.loads(stated.stdout)["outputs"][0]["max"] != pytest.approx(row["max"], rel=1e-2)
    assert len(json.loads(call(*words, "--top", 2).stdout)["answer"]["classes"]) == 2


def test_run_command_shows_labels(model: Path, device: DeviceInfo) -> None:
    shown = call("run", model, "--device", device.index, "--signature", "look").stdout
    assert "class scores, identified by the model's metadata" in shown
    assert all(label in shown for label in LABELS)


def test_check_command_shows_metadata(model: Path) -> None:
    shown = call("check", model, "--device", "null").stdout
    for text in ("signatures", "photo", "the author", "image (rgb)", "mean 10 20 30", "cat | dog"):
        assert text in shown
    report = json.loads(call("check", model, "--device", "null", "--json").stdout)
    assert report["metadata"]["outputs"][0]["labels"][0]["texts"] == [*LABELS]
    assert report["signatures"]["look"]["inputs"] == {"photo": "x"}


def test_check_command_reports_unreadable_labels(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(animal_classifier()[:-30])
    result = call("check", path, "--device", "null")
    assert result.exit_code == 0
    assert "the labels in 'labels.txt' cannot be read" in result.stderr


def test_model_without_metadata(device: DeviceInfo) -> None:
    plain = writer.Subgraph([writer.Tensor(n, (3,)) for n in "xy"],
                            [writer.Operator("ABS", ["x"], ["y"])], ["x"], ["y"])  # fmt: skip
    data = writer.write_model([plain], description="")
    with fourfold.Session(data, device, cache=None) as session:
        assert session.metadata == ModelMetadata()
        assert not session.metadata
        assert session.signatures == {}
        assert session.outputs[0].metadata is None
