"""Tasks of a newcomer: every command takes a photograph in the same way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_collection import SHARED, TFLITE, at_hand
from PIL import Image
from runtimes import RUNTIMES, interpreter, run
from yolox_network import yolox_model

import fourfold
from fourfold import vision
from fourfold.export.quantize.samples import read_samples
from fourfold.formats import read_model

pytestmark = pytest.mark.needs_device
Shell = Callable[..., str]
Ask = Callable[..., dict[str, Any]]
INPUTS = SHARED / "inputs"
MOBILENET = "mobilenet_v1_025_224_float.tflite"
CLEAR = {"cat.bmp": "Egyptian cat", "burger.jpg": "cheeseburger", "sunflower.bmp": "daisy"}
OTHERS = ("bird_segmentation.bmp", "cats_and_dogs.jpg", "grace_hopper.bmp", "squat.bmp")


def overlap(one: list[float], other: list[float]) -> float:
    """Return the intersection over union of two boxes: top, left, bottom, right."""
    (top, left), (bottom, right) = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    both = max(bottom - top, 0) * max(right - left, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return float(both / (sum(areas) - both))


@pytest.fixture
def blue(folder: Path) -> str:
    """A gray photograph with a blue square, which fills one cell of 16 pixels in a letterbox."""
    photo = Image.new("RGB", (128, 64), (60, 60, 60))
    photo.paste((0, 0, 255), (64, 0, 96, 32))
    photo.save(folder / "blue.png")
    (folder / "yolox.onnx").write_bytes(yolox_model())
    return "blue.png"


def test_yolox_takes_bgr_bytes_in_a_letterbox(ask: Ask, blue: str) -> None:
    found = ask(f"fourfold run yolox.onnx {blue}")
    (box,) = found["answer"]["boxes"]
    assert found["answer"]["family"] == "YOLOX, 3 classes"
    assert (box["number"], box["score"] > 0.8) == (1, True)
    assert overlap(box["corners"], [0, 0.5, 0.5, 0.75]) > 0.98
    text = "pixels from 0 to 255 in a letterbox, in BGR order, as is usual for YOLOX, 3 classes"
    assert found["preprocessing"]["text"] == text
    with fourfold.Session("yolox.onnx") as session:
        answer = vision.ask(session, blue)
    assert answer.boxes[0].corners == pytest.approx(box["corners"])
    assert text in answer.notes


def test_a_page_of_yolox_draws_boxes(ask: Ask, blue: str) -> None:
    made = ask("fourfold web yolox.onnx -o page")
    assert (made["task"], made["preprocessing"]["order"]) == ("boxes", "bgr")
    settings = json.loads(Path("page", "page.json").read_text())
    picture = {"fit": "letterbox", "fill": 114, "order": "bgr", "mean": 0, "std": 1}
    assert settings["picture"] == picture


def test_postprocessing_does_not_change_how_pictures_go_in(ask: Ask, blue: str) -> None:
    words = "--postprocess 'yolo:strides=[8,16,32],score=0.5'"
    (box,) = ask(f"fourfold run yolox.onnx {blue} {words}")["answer"]["boxes"]
    assert overlap(box["corners"], [0, 0.5, 0.5, 0.75]) > 0.98


def test_the_device_scales_bytes_as_the_command_does(ask: Ask, blue: str) -> None:
    for words in ("--pixels rgb", "--pixels bgra --fit letterbox --fill 114"):
        found = ask(f"fourfold run yolox.onnx {blue} {words}")
        (box,) = found["answer"]["boxes"]
        assert overlap(box["corners"], [0, 0.5, 0.5, 0.75]) > 0.95


COMMANDS = (
    "run {model} photo.jpg",
    "bench {model} --input photo.jpg --runs 1 --seconds 0 --no-compare",
    "verify {model} --inputs pictures",
    "web {model} -o page",
    "optimize {model} -o out.tflite --quantize int8 --calibrate pictures",
    "optimize {model} -o out.tflite --samples pictures",
)


@pytest.fixture
def pictures(folder: Path) -> Path:
    path = folder / "pictures"
    path.mkdir()
    for number in range(4):
        shutil.copyfile("photo.jpg", path / f"{number}.jpg")
    shutil.copyfile("classifier.tflite", folder / "mobilenet.tflite")
    return path


def preprocessing(report: dict[str, Any]) -> dict[str, Any]:
    """Return what a command's JSON says about pictures."""
    model = report["models"][0] if "models" in report else {}
    places = [report, *(model[key] for key in ("quantization", "answers") if model.get(key))]
    found = [one["preprocessing"] for one in places if one.get("preprocessing")]
    assert len(found) == 1
    told: dict[str, Any] = found[0]
    return told


@pytest.mark.parametrize("command", COMMANDS)
def test_all_commands_agree_about_pictures(ask: Ask, pictures: Path, command: str) -> None:
    """By the name of a family, as the caller states, and by default."""
    small, named = (
        command.format(model="classifier.tflite"),
        command.format(model="mobilenet.tflite"),
    )
    assert "guess" in preprocessing(ask(f"fourfold {small}"))["text"]
    told = preprocessing(ask(f"fourfold {named}"))
    assert told["text"] == (
        "pixels from -1 to 1, as is usual for MobileNet, judging by the file's name"
    )
    stated = preprocessing(ask(f"fourfold {named} --range -2,3"))
    assert stated["range"] == pytest.approx([-2, 3])
    assert stated["text"] == "pixels from -2 to 3, as stated"


def test_a_report_names_the_preprocessing(shell: Shell, pictures: Path) -> None:
    said = shell("fourfold report mobilenet.tflite --input photo.jpg --seconds 0 --json data.json")
    assert "photo.jpg: pixels from -1 to 1, as is usual for MobileNet" in said
    data = json.loads(Path("data.json").read_text())["subject"]["data"]
    assert data.startswith("photo.jpg (pixels from -1 to 1, as is usual for MobileNet")


def test_a_prepared_file_keeps_the_name_of_its_model(ask: Ask, pictures: Path) -> None:
    fourfold.prepare("mobilenet.tflite", "app.fourfold", everywhere=False)
    found = ask("fourfold run app.fourfold photo.jpg")["preprocessing"]
    assert found["range"] == [-1, 1]


def test_quantising_with_photographs_keeps_answers(ask: Ask, folder: Path) -> None:
    """MobileNet takes pixels from -1 to 1, which nothing but its family says."""
    model = at_hand(TFLITE / MOBILENET)
    (folder / "calibration").mkdir()
    for name in (*CLEAR, *OTHERS):
        shutil.copyfile(at_hand(INPUTS / name), folder / "calibration" / name)
    words = f"fourfold optimize {model} -o small.tflite --quantize int8 --calibrate calibration"
    report = ask(words)["models"][0]["quantization"]
    assert report["preprocessing"]["range"] == [-1, 1]
    assert report["loss"]["answers"] > 0.5  # others are too close to call
    labels = vision.read_labels(at_hand(INPUTS / "imagenet_labels.txt"))
    with fourfold.Session(model) as exact, fourfold.Session("small.tflite") as small:
        for name, best in CLEAR.items():
            for session in (exact, small):
                answer = vision.ask(session, INPUTS / name, labels=labels)
                assert answer.classes[0].label == best
    for name, best in CLEAR.items():
        classes = ask(f"fourfold run small.tflite {INPUTS / name}")["answer"]["classes"]
        assert labels[classes[0]["number"]] == best


def test_calibration_sees_what_a_run_sees(folder: Path) -> None:
    model, name = at_hand(TFLITE / MOBILENET), "cats_and_dogs.jpg"
    shutil.copyfile(at_hand(INPUTS / name), folder / name)
    (folder / "one").mkdir()
    (folder / name).rename(folder / "one" / name)
    read = read_model(str(model))
    ((sample,),) = (one.values() for one in read_samples(folder / "one", read, None, least=1))
    with fourfold.Session(model) as session:
        picture = vision.find_picture_input(session)
    assert picture is not None
    expected = picture.array(np.asarray(Image.open(INPUTS / name).convert("RGB")))
    np.testing.assert_array_equal(sample, expected)
    assert (sample.min() < -0.9, sample.max() > 0.9) == (True, True)


@pytest.mark.parametrize("runtime", RUNTIMES[:1])
def test_boxes_are_those_of_the_reference_pipeline(ask: Ask, runtime: str) -> None:
    """A photograph resized with Pillow, in LiteRT: the same boxes within 0.02 of their overlap."""
    model = at_hand(TFLITE / "ssd_mobilenet_v1_uint8.tflite")
    photograph = at_hand(INPUTS / "cats_and_dogs.jpg")
    with Image.open(photograph) as opened:
        resized = opened.convert("RGB").resize((300, 300), Image.Resampling.BILINEAR)
    outputs = run(interpreter(runtime, model.read_bytes()), [np.asarray(resized)[None]])
    corners, _, scores, count = (array[0] for array in outputs)
    expected = [corners[at].clip(0, 1) for at in range(int(count)) if scores[at] >= 0.4]
    found = ask(f"fourfold run {model} {photograph}")["answer"]["boxes"]
    assert len(found) == len(expected) == 6
    for box, reference in zip(found, expected, strict=True):
        assert overlap(box["corners"], reference.tolist()) > 0.98
        assert all(0 <= one <= 1 for one in box["corners"])


def test_a_page_draws_what_a_run_finds(ask: Ask) -> None:
    """The same thresholds and the same fit."""
    for name, expected in (
        ("ssd_mobilenet_v1_uint8", ("detections", "stretch", 0.4)),
        ("movenet_lightning_int8", ("keypoints", "letterbox", 0.3)),
    ):
        ask(f"fourfold web {at_hand(TFLITE / f'{name}.tflite')} -o {name}")
        settings = json.loads(Path(name, "page.json").read_text())
        told = (settings["task"], settings["picture"]["fit"], settings["score"])
        assert told == expected
        assert "mean" not in settings["picture"]  # it takes bytes
    photograph = at_hand(INPUTS / "squat.bmp")
    model = TFLITE / "movenet_lightning_int8.tflite"
    (body,) = ask(f"fourfold run {model} {photograph}")["answer"]["key_points"]
    assert sum(point["seen"] for point in body["points"]) == 17
