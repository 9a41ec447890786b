"""`fourfold run` shows a model's answer in tables, as JSON, and drawn on the photograph."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from detector_networks import Network
from docs.tiny_model import ANIMALS, tiny_described_model, tiny_model

import fourfold
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.processing.pictures import picture_bytes
from fourfold.types import TensorType

image = pytest.importorskip("PIL.Image", reason="Pillow reads photographs")


class Runner:
    """Return a function that calls `run` on a model and a photograph."""

    def __init__(self, folder: Path, device: DeviceInfo) -> None:
        self.folder, self._device = folder, device
        pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
        image.fromarray(pixels).save(folder / "p.png")

    def __call__(self, model: bytes, *words: object, given: bool = True) -> Result:
        (self.folder / "m.tflite").write_bytes(model)
        command = ["run", self.folder / "m.tflite", "--device", self._device.index, *words]
        command += ["--input", self.folder / "p.png"] if given else []
        return CliRunner().invoke(main, [str(word) for word in command])

    def file(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name


@pytest.fixture
def run(tmp_path: Path, device: DeviceInfo) -> Runner:
    return Runner(tmp_path, device)


def boxes() -> bytes:
    network = Network()
    rows = network.reshape("rows", network.grid(16, 6), 1, 6, 6)
    return network.write(network.add("picked", "logistic", rows))


def test_boxes_are_printed_in_pixels_and_drawn(run: Runner, tmp_path: Path) -> None:
    drawing = tmp_path / "new" / "drawn.png"
    result = run(boxes(), "--draw", drawing, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    answer = report["answer"]
    assert (answer["kinds"], answer["size"]) == (["boxes"], [40, 60])
    for box in answer["boxes"]:
        np.testing.assert_allclose(box["pixels"], np.multiply(box["corners"], [40, 60, 40, 60]))
    assert report["files"] == {"the drawing": str(drawing)}
    plain = image.fromarray(picture_bytes(tmp_path / "p.png")).resize((660, 440), 1)
    assert (picture_bytes(drawing) != np.asarray(plain)).any()
    shown = run(boxes()).stdout
    assert "boxes, in pixels" in shown
    assert "bottom" in shown


def test_labels_of_a_file_name_classes(run: Runner) -> None:
    model = tiny_model()
    assert "class 0" not in run(model).stdout
    labels = run.file("labels.txt", "\n".join(ANIMALS) + "\n\n")
    found = json.loads(run(model, "--labels", labels, "--top", 2, "--json").stdout)["answer"]
    assert len(found["classes"]) == 2
    assert {one["label"] for one in found["classes"]} < {*ANIMALS}


@pytest.mark.parametrize(
    ("text", "why"),
    [("cat\ndog\n", "2 labels do not fit 10 classes"), ("\n\n", "has no labels")],
)
def test_labels_that_do_not_fit_are_an_error(run: Runner, text: str, why: str) -> None:
    result = run(tiny_model(), "--labels", run.file("labels.txt", text))
    assert (result.exit_code, why in result.stderr, "fix:" in result.stderr) == (2, True, True)


def test_the_range_of_pixels_is_printed(run: Runner) -> None:
    guessed = run(tiny_model())
    assert "p.png: pixels from 0 to 1, which is a guess" in guessed.stderr
    assert "change it with --range LOW,HIGH" in guessed.stderr
    known = run(tiny_described_model())
    assert "p.png: pixels from -1 to 1, as the model's metadata say" in known.stderr
    stated = run(tiny_model(), "--range", "0,2")
    assert "p.png: pixels from 0 to 2, as stated" in stated.stderr


@pytest.mark.parametrize(
    ("words", "given", "why"),
    [
        (("--draw", "x.png"), False, "no input is a picture"),
        (("--draw", "x.doc"), True, "pictures are .bmp"),
    ],
)
def test_undrawable_outputs_are_reported_before_anything_runs(
    run: Runner, words: tuple[str, ...], given: bool, why: str
) -> None:
    result = run(b"no model", *words, given=given)
    assert (result.exit_code, why in result.stderr) == (2, True)


def test_a_drawing_needs_something_that_is_known(run: Runner, tmp_path: Path) -> None:
    network = Network()
    model = network.write(network.grid(32, 9))  # nine numbers of unknown meaning
    result = run(model, "--draw", tmp_path / "x.png")
    assert "nothing was drawn: the meaning of the outputs is unknown" in result.stderr
    assert (result.exit_code, (tmp_path / "x.png").exists()) == (0, False)
    assert "the meaning of these outputs is unknown: " in result.stdout


def test_unknown_outputs_are_not_drawn_and_nothing_runs(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a detector of an unknown family, with three outputs."""
    network = Network()
    model = network.write(*(network.grid(16, count) for count in (4, 5, 10)))
    monkeypatch.setattr(fourfold.Session, "run", None)
    result = run(model, "--draw", tmp_path / "x.png")
    assert (result.exit_code, "there is nothing to draw" in result.stderr) == (2, True)


def detector_of(classes: int) -> bytes:
    """Rows of corners, a score and a class number, which is the number of classes."""
    network = Network()
    rows = network.reshape("rows", network.grid(16, 6), 1, 6, 6)
    number = np.full((1, 1, 6), 0, np.float32)
    number[..., 4:] = 0.9, classes
    shares = np.array([1, 1, 1, 1, 0, 0], np.float32).reshape(1, 1, 6)
    for name, array in (("number", number), ("shares", shares)):
        network.constants[name], network.types[name] = array, TensorType.of(array)
    scaled = network.add("scaled", "mul", network.add("s", "logistic", rows), "shares")
    return network.write(network.add("picked", "add", scaled, "number"))


def test_labels_that_turn_out_to_be_too_few_are_left_out(run: Runner) -> None:
    labels = run.file("labels.txt", "cat\ndog\n")
    result = run(detector_of(7), "--labels", labels)
    assert result.exit_code == 0, result.output
    assert "the labels were not used: class 7 has no label" in result.stderr
    assert "class 7" in result.stdout


def test_labels_are_checked_before_anything_runs(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fourfold.Session, "run", None)
    result = run(tiny_model(), "--labels", run.file("labels.txt", "cat\ndog\n"))
    assert (result.exit_code, "2 labels do not fit 10 classes" in result.stderr) == (2, True)


def test_a_drawing_that_cannot_be_written(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run(boxes(), "--draw", tmp_path / "file" / "x.png")
    assert (result.exit_code, "cannot be written" in result.stderr) == (2, True)


def test_error_without_pillow_says_what_to_install(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    for words in (("--draw", "x.png"), ()):
        result = run(boxes(), *words)
        assert (result.exit_code, "pip install 'fourfold[images]'" in result.stderr) == (2, True)


def test_frames_of_any_size_give_pixels_of_the_photograph(run: Runner) -> None:
    plain = json.loads(run(boxes(), "--json", "--score", 0).stdout)["answer"]
    boxed = run(boxes(), "--json", "--score", 0, "--fit", "letterbox").stdout
    boxed = json.loads(boxed)["answer"]
    assert plain["size"] == boxed["size"] == [40, 60]
    # 40 × 60 fits into 32 × 48 without bars, so only the resampling differs.
    first, second = (answer["boxes"][0]["pixels"] for answer in (plain, boxed))
    np.testing.assert_allclose(first, second, atol=4)


def test_the_least_score_that_counts(run: Runner) -> None:
    def scores(least: float) -> list[float]:
        report = json.loads(run(boxes(), "--json", "--score", least).stdout)
        return sorted(box["score"] for box in report["answer"]["boxes"])

    found = scores(0)
    assert len(found) == 6
    assert scores(found[3] - 1e-6) == found[3:]
    assert "no boxes" in run(boxes(), "--score", 1).stdout
