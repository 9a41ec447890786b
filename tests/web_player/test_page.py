"""Pages that run models: their task, the files of their folder, and the display in a browser."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from browser import Browser
from click.testing import CliRunner, Result
from model_collection import SHARED, TFLITE, at_hand, needs_models
from onnx_writer import graph, model, node
from tflite_writer import Operator, Tensor, write
from yolox_network import yolox_model

import fourfold
from fourfold.cli import main
from fourfold.export.web.page import PLAYER, TEMPLATE, asset_folder
from fourfold.export.web.server import FolderServer
from fourfold.store.prepared import Prepared

ROOT = Path(__file__).parents[2]
TASKS = {
    "face_detection_short_range": "boxes",
    "palm_detection_lite": "boxes",
    "pose_detection": "boxes",
    "ssd_mobilenet_v1_uint8": "detections",
    "movenet_lightning_int8": "keypoints",
    "selfie_segmentation": "mask",
    "deeplab_v3_257_float": "classmap",
    "style_transfer_f16_384": "numbers",
    "edsr_x2_float": "picture",
    "mobilenet_v1_025_224_float": "classes",
    "kws_ref_model": "numbers",
}


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], standalone_mode=False)


@needs_models
@pytest.mark.parametrize("name", ["face_detection_short_range", "kws_ref_model"])
def test_the_folder_of_a_page(tmp_path: Path, name: str) -> None:
    done = call("web", TFLITE / f"{name}.tflite", "-o", tmp_path / "page", "--json")
    assert done.exception is None, done.output
    assert json.loads(done.output)["task"] == TASKS[name]
    settings = json.loads((tmp_path / "page" / "page.json").read_text())
    assert (settings["title"], settings["task"]) == (name, TASKS[name])
    prepared = Prepared.open(str(tmp_path / "page" / settings["model"]))
    kinds = [row["made_for"]["kind"] for row in prepared.index["plans"]]
    assert kinds == ["gpu", "other"]
    for file in asset_folder(PLAYER).iterdir():
        assert (tmp_path / "page" / PLAYER / file.name).read_bytes() == file.read_bytes()


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_the_page_draws_what_the_model_returns(tmp_path: Path, name: str) -> None:
    done = call("web", TFLITE / f"{name}.tflite", "-o", tmp_path / "page", "--json")
    assert done.exception is None, done.output
    assert json.loads(done.output)["task"] == TASKS[name]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a model with scores of two classes: the means of red and green, from 0 to 1."""
    weights = np.zeros((2, 3, 1, 1), np.float32)
    weights[0, 0] = weights[1, 1] = 1
    nodes = [
        node("Conv", ["x", "weights"], ["colours"]),
        node("GlobalAveragePool", ["colours"], ["means"]),
        node("Flatten", ["means"], ["scores"]),
    ]
    ports = [("x", "float", (1, 3, 8, 8))], [("scores", "float", (1, 2))]
    path = tmp_path / "small.onnx"
    path.write_bytes(model(graph(nodes, *ports, {"weights": weights})))
    return path


@pytest.fixture
def red(tmp_path: Path) -> Path:
    pictures = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    path = tmp_path / "red.png"
    pictures.new("RGB", (30, 20), (204, 51, 0)).save(path)
    return path


def test_a_page_in_a_browser(chromium: Browser, small: Path, red: Path) -> None:
    folder = small.parent / "page"
    done = call("web", small, "-o", folder, "--picture", red)
    assert done.exception is None, done.output
    assert "a page that shows classes" in done.output
    with FolderServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = chromium.page(server.address)
        assert page.wait_for("document.body?.dataset.state") in ("ready", "shown")
        page.wait_for("document.body.dataset.state === 'shown'")
        shown = page.run("document.getElementById('results').innerText")
        assert re.findall(r"[\d.]+ %|class \d", shown) == ["class 0", "80.0 %", "class 1", "20.0 %"]
        page.run("document.getElementById('camera').click()")
        wide = page.wait_for("document.getElementById('view').width !== 30 && view.width")
        assert wide > 100  # the camera's
        page.close()
        server.shutdown()


def shown_by(
    chromium: Browser, model: Path, picture: Path, *words: object
) -> tuple[str, list[int]]:
    """Return the words of a model's page about a picture, and width and height of the canvas."""
    folder = model.parent / f"page-{model.stem}"
    done = call("web", model, "-o", folder, "--picture", picture, *words)
    assert done.exception is None, done.output
    with FolderServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = chromium.page(server.address)
        page.wait_for("document.body?.dataset.state === 'shown'")
        results = page.run("document.getElementById('results').innerText")
        size = page.run("[view.width, view.height]")
        page.close()
        server.shutdown()
    return results, size


def test_a_page_of_yolox_finds_what_a_run_finds(chromium: Browser, tmp_path: Path) -> None:
    pictures = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    photograph = pictures.new("RGB", (128, 64), (60, 60, 60))
    photograph.paste((0, 0, 255), (64, 0, 96, 32))
    photograph.save(tmp_path / "blue.png")
    for decodes in (False, True):
        (tmp_path / "yolox.onnx").write_bytes(yolox_model(decodes))
        words, size = shown_by(chromium, tmp_path / "yolox.onnx", tmp_path / "blue.png")
        assert re.fullmatch(r"class 1\t9\d\.\d %", words)
        assert size == [128, 64]


def test_a_page_keeps_the_aspect_ratio_of_pictures(chromium: Browser, red: Path) -> None:
    ends = [Tensor("image", (1, 64, 64, 3)), Tensor("y", (1, 64, 64, 3))]
    path = red.with_name("made.tflite")
    path.write_bytes(write(ends, [Operator("RELU", ["image"], ["y"])], ["image"], ["y"]))
    words, size = shown_by(chromium, path, red)  # 30 x 20 pixels
    assert words == "a picture of 64 × 43"
    assert size == [64, 43]


@needs_models
@pytest.mark.slow
def test_pages_find_what_runs_find(chromium: Browser, tmp_path: Path) -> None:
    """The command line finds six boxes, and all points of a body."""
    pictures = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    with pictures.open(at_hand(SHARED / "inputs" / "squat.bmp")) as opened:
        opened.convert("RGB").save(tmp_path / "squat.png")
    cats = at_hand(SHARED / "inputs" / "cats_and_dogs.jpg")
    for name, picture, found in (
        ("ssd_mobilenet_v1_uint8", cats, r"((cat|dog)\t[\d.]+ %\n?){6}"),
        ("movenet_lightning_int8", tmp_path / "squat.png", "17 of 17 points seen"),
    ):
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(at_hand(TFLITE / path.name).read_bytes())
        assert re.fullmatch(found, shown_by(chromium, path, picture)[0])


def test_a_page_shows_errors(chromium: Browser, small: Path) -> None:
    folder = small.parent / "page"
    assert call("web", small, "-o", folder).exception is None
    (folder / "model.fourfold").write_bytes(b"FOURFOLD")
    with FolderServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = chromium.page(server.address)
        page.wait_for("document.body?.dataset.state === 'failed'")
        assert "is damaged" in page.run("document.getElementById('status').innerText")
        page.close()
        server.shutdown()


def test_options_of_pictures_reach_the_page(small: Path) -> None:
    folder = small.parent / "page"
    assert call("web", small, "-o", folder, "--range", "-1,1", "--fit", "crop").exception is None
    picture = json.loads((folder / "page.json").read_text())["picture"]
    assert picture == {
        "fit": "crop",
        "fill": 0,
        "order": "rgb",
        "mean": 127.5,
        "std": 127.5,
    }
    call("web", small, "-o", folder, "--mean", "1,2,3", "--task", "numbers")
    settings = json.loads((folder / "page.json").read_text())
    assert (settings["picture"]["mean"], settings["picture"]["std"]) == ([1, 2, 3], 1)
    assert settings["task"] == "numbers"


def test_a_page_shows_labels_of_a_file(chromium: Browser, small: Path, red: Path) -> None:
    names = small.parent / "names.txt"
    names.write_text("background\nruby\nemerald\n")  # one more than the model has classes
    shown, _ = shown_by(chromium, small, red, "--labels", names)
    assert re.findall(r"[\d.]+ %|ruby|emerald|class", shown) == [
        "ruby",
        "80.0 %",
        "emerald",
        "20.0 %",
    ]


@pytest.mark.parametrize(
    ("texts", "labels"),
    [(["ruby", "emerald"], ["ruby", "emerald"]), (["background", "a", "b"], ["a", "b"])],
)
def test_labels_reach_the_page(small: Path, texts: list[str], labels: list[str]) -> None:
    folder, names = small.parent / "page", small.parent / "names.txt"
    names.write_text("\n".join(texts))
    assert call("web", small, "-o", folder, "--labels", names).exception is None
    assert json.loads((folder / "page.json").read_text())["labels"] == labels


def test_labels_of_boxes_reach_the_page(tmp_path: Path) -> None:
    path, names = tmp_path / "yolox.onnx", tmp_path / "names.txt"
    path.write_bytes(yolox_model())
    names.write_text("???\ncircle\nsquare\nstar\n")
    assert call("web", path, "-o", tmp_path / "page", "--labels", names).exception is None
    settings = json.loads((tmp_path / "page" / "page.json").read_text())
    assert (settings["task"], settings["labels"]) == ("boxes", ["circle", "square", "star"])


@pytest.mark.parametrize(
    ("texts", "words", "reason"),
    [
        (["a", "b", "c"], (), "3 labels do not fit 2 classes"),
        (["a", "b"], ("--task", "numbers"), "shows numbers"),
    ],
)
def test_labels_that_do_not_fit_write_no_page(
    small: Path, texts: list[str], words: tuple[str, ...], reason: str
) -> None:
    folder, names = small.parent / "page", small.parent / "names.txt"
    names.write_text("\n".join(texts))
    done = CliRunner().invoke(
        main, ["web", str(small), "-o", str(folder), "--labels", str(names), *words]
    )
    assert done.exit_code == 2
    assert reason in done.output
    assert not folder.exists()


def test_a_folder_with_other_files_is_not_changed(small: Path) -> None:
    folder = small.parent / "other"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept")
    done = CliRunner().invoke(main, ["web", str(small), "-o", str(folder)])
    assert done.exit_code == 2
    assert "exists already" in done.output
    assert [path.name for path in folder.iterdir()] == ["kept.txt"]


def test_prepare_for_browsers_alone(small: Path) -> None:
    output = small.with_suffix(".fourfold")
    done = call("prepare", small, "--web", "-o", output)
    assert done.exception is None, done.output
    rows = Prepared.open(str(output)).index["plans"]
    assert {row["requirements"]["language"] for row in rows} == {"wgsl"}
    gpu, software = (row["requirements"] for row in rows)
    assert gpu["local_memory"] > 0  # work-items share the mean
    assert "local_memory" not in software


def test_the_page_loads_all_modules_at_once() -> None:
    page = (asset_folder(TEMPLATE) / "index.html").read_text()
    named = set(re.findall(r'modulepreload" href="player/([^"]+)"', page))
    assert named == {path.name for path in asset_folder(PLAYER).iterdir()}


def test_the_package_has_the_version_of_fourfold() -> None:
    package = json.loads((ROOT / "web" / "package.json").read_text())
    assert package["version"] == fourfold.__version__
