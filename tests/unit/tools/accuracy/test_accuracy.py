"""verify measures accuracy on a dataset: on the device, in the runtime, and of a float model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from command_calls import ask, call
from PIL import Image
from yolox_network import yolox_model

import fourfold
from fourfold.backends.cpu import litert, onnxruntime
from fourfold.backends.cpu import numpy as definitions
from fourfold.errors import InputError
from fourfold.tools.accuracy import evaluate
from fourfold.tools.accuracy.accuracy import Accuracy, AccuracyRun
from fourfold.tools.samples import COLORS

pytestmark = pytest.mark.needs_device
needs_litert = pytest.mark.skipif(not litert.ENGINE.installed(), reason="LiteRT is not installed")


def write_color(path: Path, color: tuple[int, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), color).save(path)


@pytest.fixture
def colors(tmp_path: Path) -> Path:
    path = tmp_path / "colors.tflite"
    path.write_bytes(fourfold.sample("colors"))
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Seven pictures in three classes. One red picture lies in the folder of green ones."""
    folder = tmp_path / "pictures"
    for name in ("red", "green", "7"):  # 7 is blue
        for number in range(2):
            color = COLORS["blue" if name == "7" else name]
            write_color(folder / name / f"{number}.png", color)
    write_color(folder / "green" / "wrong.png", (215, 25, 30))
    return folder


@needs_litert
def test_accuracy_of_folders(colors: Path, pictures: Path) -> None:
    found = fourfold.verify(colors, dataset=pictures)
    assert isinstance(found, Accuracy)
    assert [one.title for one in found.runs] == ["fourfold", "LiteRT"]
    assert found.on_device.scores["top-1"] == pytest.approx(6 / 7)
    assert found.on_device.scores == found.in_reference.scores
    assert found.on_device.classes == {"7": 1.0, "green": pytest.approx(2 / 3), "red": 1.0}
    assert found.in_reference.same == 1.0
    assert (found.pictures, found.total, found.differing) == (7, 7, ())
    assert found.agrees
    assert "as accurate as LiteRT: top-1 +0.0 points" in str(found)
    assert "85.7%" in str(found)
    assert "<td" in found._repr_html_()
    assert json.loads(json.dumps(found.to_json()))["differences"]["reference"]["top-1"] == 0
    assert found.preprocessing["source"] == "as the model's metadata say"


@needs_litert
def test_the_float_model_is_measured_in_its_runtime(colors: Path, pictures: Path) -> None:
    found = fourfold.verify(colors, dataset=pictures, float_model=colors, limit=4)
    assert found.of_float_model is not None
    assert found.of_float_model.title == "float model, LiteRT"
    assert found.of_float_model.scores == found.on_device.scores
    assert found.pictures == found.total == 4
    assert "compared with the float model: top-1 +0.0 points" in str(found)


def test_stated_pixels_change_the_accuracy(colors: Path, pictures: Path) -> None:
    found = ask("verify", colors, "--dataset", pictures, "--range", "0,0.01")
    assert found["runs"][0]["scores"]["top-1"] == 0  # everything is nearly black
    assert found["preprocessing"]["source"] == "as stated"


def test_unreadable_pictures_are_left_out(colors: Path, pictures: Path) -> None:
    (pictures / "red" / "broken.png").write_bytes(b"no picture")
    found = fourfold.verify(colors, dataset=pictures)
    assert (found.pictures, found.total) == (7, 8)
    assert "left out, because they cannot be read as pictures: broken.png" in found.notes
    assert not found.stopped


def test_a_dataset_without_readable_pictures_is_refused(colors: Path, tmp_path: Path) -> None:
    broken = tmp_path / "set" / "red" / "broken.png"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"broken\.png cannot be read as a picture"):
        fourfold.verify(colors, dataset=tmp_path / "set")


def test_labels_that_the_model_does_not_have_are_refused(colors: Path, pictures: Path) -> None:
    write_color(pictures / "grean" / "1.png", (0, 255, 0))
    result = call("verify", colors, "--dataset", pictures)
    assert result.exit_code == 2
    assert "the model has no class for the folders 'grean'" in result.output
    assert "such as 'green'" in result.output
    assert "--labels" in result.output


def test_labels_may_be_passed(colors: Path, pictures: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    names = {"red": "rouge", "green": "vert"}
    labels.write_text("\n".join(names.get(name, name) for name in COLORS))
    for name, other in names.items():
        (pictures / name).rename(pictures / other)
    found = ask("verify", colors, "--dataset", pictures, "--labels", labels)
    assert found["runs"][0]["scores"]["top-1"] == pytest.approx(6 / 7)


def test_an_interrupt_shows_the_accuracy_so_far(
    colors: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = evaluate.read_frames, iter(range(99))

    def interrupted(*arguments: object) -> Mapping[int, np.ndarray]:
        if next(count) == 3:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(evaluate, "read_frames", interrupted)
    result = call("verify", colors, "--dataset", pictures)
    assert result.exit_code == 130
    assert "3 of 7 pictures of" in result.output
    assert "interrupted after 3 of 7 pictures" in result.output
    count = iter([3])
    with pytest.raises(KeyboardInterrupt):  # nothing was measured yet
        fourfold.verify(colors, dataset=pictures)


def test_progress_is_reported(colors: Path, pictures: Path) -> None:
    steps: list[tuple[int, int]] = []

    def report(done: int, total: int, what: str, left: float) -> None:
        steps.append((done, total))

    fourfold.verify(colors, dataset=pictures, progress=report)
    assert steps == [(number, 7) for number in range(7)]


def test_options_that_exclude_each_other(colors: Path, pictures: Path) -> None:
    with pytest.raises(InputError, match="a dataset and inputs or layers"):
        fourfold.verify(colors, dataset=pictures, layers=True)
    assert (
        "--dataset is not alone" in call("verify", colors, "--dataset", pictures, "--layers").output
    )
    assert "--limit has no dataset" in call("verify", colors, "--limit", 3).output


def accuracy(mine: float, theirs: float, pictures: int) -> Accuracy:
    both = (("device", "fourfold", mine), ("reference", "LiteRT", theirs))
    runs = tuple(AccuracyRun(role, title, {"top-1": score}) for role, title, score in both)
    return Accuracy("model", "set", "a GPU", "fp32", runs, pictures, pictures)


def test_a_device_may_lose_one_point_or_one_picture() -> None:
    assert accuracy(0.70, 0.71, 1000).agrees
    assert not accuracy(0.68, 0.70, 1000).agrees
    assert accuracy(0.9, 1.0, 10).agrees
    assert not accuracy(0.8, 1.0, 10).agrees
    assert "less accurate than LiteRT: top-1 -20.0 points" in str(accuracy(0.8, 1.0, 10))


def test_engines_read_inputs_at_every_run(colors: Path) -> None:
    """The same opened engine sees all pictures of a dataset."""
    content = colors.read_bytes()
    engines = [definitions.ENGINE, *([litert.ENGINE] if litert.ENGINE.installed() else [])]
    for engine in engines:
        array = np.zeros((1, 64, 64, 3), np.float32)
        run = engine.open_model(content, {"picture": array}, 1)
        assert np.argmax(run()[0]) == 0
        array[:] = 1.0
        assert np.argmax(run()[0]) == 2


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """A detector of blue squares in cells of 16 pixels, two pictures, and their annotations: the
    first square is annotated as it is, the second one, which is darker, 10 pixels beside it.
    """
    (tmp_path / "yolox.onnx").write_bytes(yolox_model())
    names = ("exact.png", "shifted.png")
    for name, blue in zip(names, (255, 248), strict=True):
        picture = Image.new("RGB", (128, 64), (60, 60, 60))
        picture.paste((0, 0, blue), (64, 0, 96, 32))
        picture.save(tmp_path / name)
    boxes = ([64, 0, 32, 32], [74, 0, 32, 32])
    content = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "categories": [
            {"id": n, "name": name} for n, name in ((1, "red"), (4, "blue"), (6, "gray"))
        ],
        "annotations": [
            {"image_id": n, "category_id": 4, "bbox": box} for n, box in enumerate(boxes)
        ],
    }
    (tmp_path / "instances.json").write_text(json.dumps(content))
    return tmp_path


def test_mean_average_precision(detector: Path) -> None:
    """The second box overlaps its annotation by 22/42, which only the threshold 0.50 accepts. The
    others accept one of two boxes, the one with the higher score: 51 of 101 recalls.
    """
    found = fourfold.verify(detector / "yolox.onnx", dataset=detector / "instances.json")
    on_device = found.on_device
    assert on_device.scores["mAP 50"] == pytest.approx(1.0)
    assert on_device.scores["mAP"] == pytest.approx((1 + 9 * 51 / 101) / 10)
    assert set(on_device.classes) == {"blue"}
    assert any("in order of their id" in note for note in found.notes)
    assert found.in_reference.scores == pytest.approx(on_device.scores)
    assert found.agrees
    assert found.in_reference.same is None


def test_detectors_match_categories_by_label(detector: Path) -> None:
    labels = ["Gray", "BLUE", "green"]
    found = fourfold.verify(detector / "yolox.onnx", dataset=detector, labels=labels)
    assert found.on_device.scores["mAP 50"] == pytest.approx(1.0)
    with pytest.raises(InputError, match="the model has no class of the dataset"):
        fourfold.verify(detector / "yolox.onnx", dataset=detector, labels=["a", "b", "c"])


def test_datasets_must_fit_the_model(colors: Path, detector: Path, pictures: Path) -> None:
    with pytest.raises(InputError, match="the model does not find boxes"):
        fourfold.verify(colors, dataset=detector / "instances.json")
    with pytest.raises(InputError, match="the model does not classify pictures"):
        fourfold.verify(detector / "yolox.onnx", dataset=pictures)


@pytest.mark.skipif(not onnxruntime.ENGINE.installed(), reason="ONNX Runtime is not installed")
def test_onnx_models_are_compared_with_onnx_runtime(detector: Path) -> None:
    found = ask("verify", detector / "yolox.onnx", "--dataset", detector / "instances.json")
    assert [one["title"] for one in found["runs"]] == ["fourfold", "ONNX Runtime"]
