"""Tasks of a newcomer: measure the accuracy of real models on labelled photographs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_collection import SHARED, TFLITE, at_hand

pytestmark = pytest.mark.needs_device
Ask = Callable[..., dict[str, Any]]
INPUTS = SHARED / "inputs"
CLASSES = {"Egyptian cat": "cat.bmp", "cheeseburger": "burger.jpg", "daisy": "sunflower.bmp"}
# Category, left, top, right and bottom of clear cats and dogs in the photograph.
ANIMALS = ((17, 48, 398, 447, 594), (17, 596, 158, 1036, 600), (18, 81, 231, 665, 600))


def test_classifiers_are_right_about_clear_photographs(ask: Ask, folder: Path) -> None:
    for label, name in CLASSES.items():
        (folder / "photos" / label).mkdir(parents=True)
        shutil.copyfile(at_hand(INPUTS / name), folder / "photos" / label / name)
    labels = at_hand(INPUTS / "imagenet_labels.txt")
    quantized = at_hand(TFLITE / "mobilenet_v2_1.0_224_quant.tflite")
    real = at_hand(TFLITE / "mobilenet_v1_025_224_float.tflite")
    words = f"--dataset photos --labels {labels} --float-model {real}"
    found = ask(f"fourfold verify {quantized} {words}")
    assert [one["role"] for one in found["runs"]] == ["device", "reference", "float"]
    assert [one["scores"]["top-1"] for one in found["runs"]] == [1.0] * 3
    assert found["agrees"]


def test_a_detector_finds_annotated_animals(ask: Ask, folder: Path) -> None:
    at_hand(INPUTS / "cats_and_dogs.jpg")
    model = at_hand(TFLITE / "ssd_mobilenet_v1_uint8.tflite")
    objects = [
        {"image_id": 1, "category_id": one, "bbox": [left, top, right - left, bottom - top]}
        for one, left, top, right, bottom in ANIMALS
    ]
    content = {
        "images": [{"id": 1, "file_name": "cats_and_dogs.jpg"}],
        "categories": [{"id": 17, "name": "cat"}, {"id": 18, "name": "dog"}],
        "annotations": objects,
    }
    (folder / "animals.json").write_text(json.dumps(content))
    found = ask(f"fourfold verify {model} --dataset animals.json --images {INPUTS}")
    device, reference = (one["scores"] for one in found["runs"])
    assert device["mAP 50"] == 1.0
    assert device == pytest.approx(reference, abs=0.02)
