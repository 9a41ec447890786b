"""Models without labels have the class names of the dataset that their family is trained on."""

from __future__ import annotations

import numpy as np
import pytest
from described_models import described, labelled, tensor

from fourfold.graph.metadata import ModelMetadata
from fourfold.vision import read_answer
from fourfold.vision.class_names import AUDIOSET, COCO, IMAGENET, PASCAL_VOC, names_for_count
from fourfold.vision.meaning import DescribedModel


@pytest.mark.parametrize(
    ("dataset", "count", "first", "last"),
    [
        (IMAGENET, 1000, "tench, Tinca tinca", "toilet tissue, toilet paper, bathroom tissue"),
        (IMAGENET, 1001, "background", "toilet tissue, toilet paper, bathroom tissue"),
        (COCO, 80, "person", "toothbrush"),
        (COCO, 90, "person", "toothbrush"),
        (PASCAL_VOC, 20, "aeroplane", "tvmonitor"),
        (PASCAL_VOC, 21, "background", "tvmonitor"),
        (AUDIOSET, 521, "Speech", "Field recording"),
    ],
)
def test_datasets_have_names_by_number(dataset: str, count: int, first: str, last: str) -> None:
    names = names_for_count(dataset, count)
    assert (len(names), names[0], names[-1]) == (count, first, last)
    assert not names_for_count(dataset, count + 5)
    assert all(name and name == name.strip() for name in names)


def one_hot(count: int, number: int) -> np.ndarray:
    return np.eye(count, dtype=np.float32)[number][None]


@pytest.mark.parametrize(("count", "number"), [(1000, 285), (1001, 286)])
def test_classifiers_of_pictures_have_names_of_imagenet(count: int, number: int) -> None:
    model = described({"y": (1, count)})
    answer = read_answer(model, {"y": one_hot(count, number)}, top=1)
    assert [one.name for one in answer.classes] == ["Egyptian cat"]
    assert "class names of ImageNet, as the model has no labels" in answer.notes


def test_labels_of_the_model_or_the_caller_come_first() -> None:
    own = [f"own {number}" for number in range(1000)]
    scores = {"y": one_hot(1000, 3)}
    for model, labels in (
        (described([tensor("y", (1, 1000), said=labelled(*own))]), []),
        (described({"y": (1, 1000)}), own),
    ):
        answer = read_answer(model, scores, labels, top=1)
        assert answer.classes[0].label == "own 3"
        assert not any("class names of" in note for note in answer.notes)


def test_other_classifiers_have_no_names() -> None:
    for model, count in (
        (described({"y": (1, 10)}), 10),
        (described({"y": (1, 1000)}, picture=(1, 64, 64, 1)), 1000),
        (described({"y": (1, 1000)}, picture=(1, 300)), 1000),
    ):
        answer = read_answer(model, {"y": one_hot(count, 3)}, top=1)
        assert answer.classes[0].name == "class 3"


def test_classifiers_of_sounds_have_names_of_audioset() -> None:
    inputs = (tensor("samples", (15600,)),)
    model = DescribedModel(inputs, (tensor("y", (1, 521)),), ModelMetadata())
    assert read_answer(model, {"y": one_hot(521, 0)}, top=1).classes[0].name == "Speech"


def test_yolo_with_80_classes_has_names_of_coco() -> None:
    for classes, name in ((80, "cat"), (3, "class 2")):
        rows = np.zeros((1, 4 + classes, 336), np.float32)  # grids of a picture of 128 x 128
        rows[0, :4, 5] = (32, 32, 20, 20)
        rows[0, 4 + min(15, classes - 1), 5] = 0.9
        model = described({"y": rows.shape}, picture=(1, 128, 128, 3))
        answer = read_answer(model, {"y": rows})
        assert [box.name for box in answer.boxes] == [name]


@pytest.mark.parametrize(
    ("title", "name"), [("ssd_mobilenet_v1.tflite", "cat"), ("my.tflite", "class 16")]
)
def test_detectors_with_class_numbers_have_names_by_file_name(title: str, name: str) -> None:
    shapes = ((1, 10, 4), (1, 10), (1, 10), (1,))
    boxes, classes, scores, count = arrays = [np.zeros(shape, np.float32) for shape in shapes]
    boxes[0, 0], classes[0, 0], scores[0, 0], count[0] = (0.1, 0.1, 0.5, 0.5), 16, 0.9, 1
    names = [f"TFLite_Detection_PostProcess{end}" for end in ("", ":1", ":2", ":3")]
    model = described(dict(zip(names, shapes, strict=True)))._replace(title=title)
    answer = read_answer(model, dict(zip(names, arrays, strict=True)))
    assert [box.name for box in answer.boxes] == [name]


def test_deeplab_has_names_of_pascal_voc() -> None:
    scores = np.zeros((1, 257, 257, 21), np.float32)
    scores[..., 8] = 1
    answer = read_answer(described({"y": scores.shape}, picture=(1, 257, 257, 3)), {"y": scores})
    assert [one.name for one in answer.masks[0].shares] == ["cat"]
    numbers = np.full((1, 513, 513), 15, np.int64)
    for number, name in ((15, "person"), (30, "class 30")):
        model = described([tensor("y", (1, 513, 513), "i8")], picture=(1, 513, 513, 3))
        answer = read_answer(model, {"y": np.full_like(numbers, number)})
        assert [one.name for one in answer.masks[0].shares] == [name]
