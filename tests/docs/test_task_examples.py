"""The task examples work, on small models made here and on real ones where available."""

from __future__ import annotations

import re
import runpy
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from detector_networks import Network
from docs.blocks import ROOT
from docs.tiny_model import ANIMALS, tiny_described_model
from tflite_writer import Operator, Tensor, write

from fourfold.processing.pictures import picture_bytes

image = pytest.importorskip("PIL.Image", reason="Pillow reads photographs")
pytestmark = pytest.mark.needs_device
SHARED = ROOT.parent / "shared"
CODE_LINES = 12  # of an example's main part: nine, or a few more with broken lines


class Example:
    """Runs examples in a folder, and returns their output."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.photograph = folder / "photograph.png"
        down, along = np.indices((90, 120))
        pixels = np.stack([down * 2, along * 2, (down + along) % 256], -1).astype(np.uint8)
        image.fromarray(pixels).save(self.photograph)

    def model(self, data: bytes) -> Path:
        path = self.folder / "model.tflite"
        path.write_bytes(data)
        return path

    def run(self, name: str, *words: object) -> str:
        arguments, sys.argv = sys.argv, [name, *map(str, words)]
        try:
            runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        finally:
            sys.argv = arguments
        return self._capsys.readouterr().out

    def drawing(
        self, name: str, model: Path, photograph: Path | None = None
    ) -> tuple[str, np.ndarray]:
        """Return the output, and where the drawing differs from the enlarged photograph."""
        path = photograph or self.photograph
        out = self.run(name, model, path, self.folder / "out.png")
        drawn = picture_bytes(self.folder / "out.png")
        plain = image.fromarray(picture_bytes(path))
        plain = plain.resize(drawn.shape[1::-1], image.Resampling.LANCZOS)
        return out, (drawn != np.asarray(plain)).any(-1)


@pytest.fixture
def example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Example:
    return Example(tmp_path, capsys)


def shared_file(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{path.name} is not available")
    return path


@pytest.mark.parametrize(
    "name", ["classify", "detect", "segment", "pose", "video", "super_resolution", "keywords"]
)
def test_examples_are_short(name: str) -> None:
    """Counts the lines after imports and functions."""
    text = (ROOT / "examples" / f"{name}.py").read_text()
    main = text[re.search(r"^model, .* = sys.argv", text, re.MULTILINE).start() :]  # type: ignore[union-attr]
    lines = [line for line in main.splitlines() if line.strip()]
    assert len(lines) <= CODE_LINES


def test_classify_example(example: Example) -> None:
    model = example.model(tiny_described_model())
    rows = re.findall(
        r"^(\d\.\d+)  (\w+)$", example.run("classify", model, example.photograph), re.M
    )
    scores = [float(score) for score, _ in rows]
    assert scores == sorted(scores, reverse=True)
    assert {label for _, label in rows} < {*ANIMALS}
    labels = example.folder / "labels.txt"
    labels.write_text("\n".join(f"animal {number}" for number in range(10)))
    assert "  animal " in example.run("classify", model, example.photograph, labels)


def boxes() -> bytes:
    """Return a model of six boxes: left, top, right, bottom, score and class, all from 0 to 1."""
    network = Network()
    rows = network.reshape("rows", network.grid(16, 6), 1, 6, 6)
    return network.write(network.add("picked", "logistic", rows))


def test_detect_example(example: Example) -> None:
    out, changed = example.drawing("detect", example.model(boxes()))
    assert len(re.findall(r"^0\.\d+  class 0: ", out, re.M)) == len(out.splitlines())
    assert bool(out) == changed.any()
    assert out, "a box with a score that counts"


def test_segment_example(example: Example) -> None:
    network = Network()
    model = example.model(network.write(network.grid(2, 4)))
    out, changed = example.drawing("segment", model)
    shares = {int(kind): float(share) for share, kind in re.findall(r"([\d.]+)%  class (\d)", out)}
    assert sum(shares.values()) == pytest.approx(100, abs=0.5)
    assert len(shares) > 1
    assert changed.mean() > 0.9 * (1 - shares.get(0, 0) / 100)


def test_pose_example(example: Example) -> None:
    network = Network()
    rows = network.reshape("rows", network.grid(32, 51), 1, 1, 17, 3)
    out, changed = example.drawing(
        "pose", example.model(network.write(network.add("y", "logistic", rows)))
    )
    assert len(out.splitlines()) == 17
    assert changed.any()
    assert "nose: " in out


def test_super_resolution_example(example: Example) -> None:
    network = Network()
    model = example.model(network.write(network.add("y", "logistic", network.grid(1, 3))))
    out = example.run("super_resolution", model, example.photograph, example.folder / "large.png")
    assert "48 × 32 -> 48 × 32" in out
    with image.open(example.folder / "large.png") as large:
        assert large.size == (48, 32)


@pytest.mark.parametrize("source", ["folder", "clip.gif"])
def test_video_example(example: Example, source: str) -> None:
    model, frames = example.model(boxes()), example.folder / source
    pictures = [image.new("RGB", (60, 40), (number * 60, 90, 30)) for number in range(3)]
    if source == "folder":
        frames.mkdir()
        for number, one in enumerate(pictures):
            one.save(frames / f"{number}.png")
    else:
        pytest.importorskip("imageio", reason="imageio reads videos")
        pictures[0].save(frames, save_all=True, append_images=pictures[1:])
    out = example.run("video", model, frames, example.folder / "drawn")
    assert re.findall(r"^frame (\d): \d+ boxes, [\d.]+ frames per second$", out, re.M) == [
        "0",
        "1",
        "2",
    ]
    assert len(list((example.folder / "drawn").glob("*.png"))) == 3


OPENCV = """
import numpy as np

class VideoCapture:
    '''The first camera gives two frames, blue first; others are not there.'''
    def __init__(self, source):
        self.left = 2 if source == 0 else 0
    def isOpened(self):
        return self.left > 0
    def read(self):
        self.left -= 1
        return self.left >= 0, np.full((40, 60, 3), (255, 0, 0), np.uint8)
"""


def test_video_example_reads_a_camera(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    (example.folder / "cv2.py").write_text(OPENCV)
    monkeypatch.syspath_prepend(example.folder)
    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.delitem(sys.modules, "cv2")  # an installed module is restored afterwards
    model, drawn = example.model(boxes()), example.folder / "drawn"
    out = example.run("video", model, "0", drawn)
    assert len(out.splitlines()) == len(list(drawn.glob("*.png"))) == 2
    assert picture_bytes(drawn / "00001.png")[-1, -1].tolist() == [0, 0, 255]
    with pytest.raises(SystemExit, match="OpenCV cannot open 1 as a camera or video"):
        example.run("video", model, "1", drawn)


def test_keywords_example(example: Example) -> None:
    """The first coefficient of two steps tells whether the sound is louder at the end."""
    weights = np.zeros((12, 490), np.float32)
    weights[3, [0, 480]], weights[9, [0, 480]] = (1, -1), (-1, 1)
    tensors = [
        Tensor("features", (1, 490)),
        Tensor("weights", weights.shape, data=weights),
        Tensor("logits", (1, 12)),
        Tensor("scores", (1, 12)),
    ]
    operators = [
        Operator("FULLY_CONNECTED", ["features", "weights", None], ["logits"]),
        Operator("SOFTMAX", ["logits"], ["scores"], "SoftmaxOptions", {"Beta": 1.0}),
    ]
    model = example.model(write(tensors, operators, ["features"], ["scores"]))
    tone = np.sin(np.arange(16000) / 5) * 9000
    for name, loudness in (
        ("yes", np.linspace(0.001, 1, 16000)),
        ("no", np.linspace(1, 0.001, 16000)),
    ):
        path = example.folder / f"{name}.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes((tone * loudness).astype("<i2").tobytes())
        assert example.run("keywords", model, path).split()[1] == name


REAL_MODELS = {
    "classify": ("mobilenet_v1_0.25_128_quant", "burger.jpg", "cheeseburger"),
    "detect": ("ssd_mobilenet_v1_uint8", "cats_and_dogs.jpg", "dog: "),
    "segment": ("deeplab_v3_257_float", "segmentation_input_rotation0.jpg", "horse"),
    "pose": ("movenet_lightning_int8", "squat.bmp", "left knee: 0.5"),
}


@pytest.mark.parametrize("name", REAL_MODELS)
def test_examples_on_photographs(example: Example, name: str) -> None:
    model, photograph, words = REAL_MODELS[name]
    inputs = [shared_file(f"models/tflite/{model}.tflite"), shared_file(f"inputs/{photograph}")]
    out = example.run(name, *inputs, *([] if name == "classify" else [example.folder / "out.png"]))
    assert words in out


def test_keywords_example_on_speech(example: Example) -> None:
    model, sound = shared_file("models/tflite/kws_ref_model.tflite"), shared_file("inputs/yes.wav")
    score, word = example.run("keywords", model, sound).split()[:2]
    assert (word, float(score) > 0.9) == ("yes", True)


def test_super_resolution_example_on_a_photograph(example: Example) -> None:
    model, cat = shared_file("models/onnx/super_resolution.onnx"), shared_file("inputs/cat.bmp")
    assert "-> 672 × 672" in example.run(
        "super_resolution", model, cat, example.folder / "large.png"
    )
    large = picture_bytes(example.folder / "large.png").astype(float)
    small = image.fromarray(picture_bytes(cat))
    left = (small.width - small.height) // 2
    expected = small.crop((left, 0, left + small.height, small.height)).resize((672, 672))
    assert np.abs(large - np.asarray(expected)).mean() < 8
