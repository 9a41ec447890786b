"""Key points, masks and pictures, from outputs with known content."""

from __future__ import annotations

import numpy as np
import pytest
from described_models import described, labelled, tensor

from fourfold.errors import InputError
from fourfold.graph.metadata import ModelMetadata
from fourfold.types import Quantization
from fourfold.vision import read_answer
from fourfold.vision.skeletons import BODY, HAND, POSE


def test_movenet() -> None:
    rows = np.zeros((1, 1, 17, 3), np.float32)
    rows[0, 0, 7] = 0.25, 0.75, 0.9
    model = described({"y": rows.shape}, (1, 192, 192, 3), dtype="u1")
    (body,) = read_answer(model, {"y": rows}).key_points
    elbow = body.points[7]
    assert (elbow.name, elbow.y, elbow.x) == ("left elbow", 0.25, 0.75)
    assert [place for place, seen in enumerate(body.seen) if seen] == [7]
    assert body.edges == BODY.edges


def test_movenet_for_several() -> None:
    rows = np.zeros((1, 6, 56), np.float32)
    rows[0, 2, :3] = 0.5, 0.25, 0.8
    rows[0, 2, 51:] = 0.1, 0.2, 0.3, 0.4, 0.9
    (box,) = read_answer(described({"y": rows.shape}), {"y": rows}).boxes
    assert (box.name, box.score, box.corners) == (
        "person",
        pytest.approx(0.9),
        pytest.approx((0.1, 0.2, 0.3, 0.4)),
    )
    assert (box.points[0].name, box.points[0].y, box.points[0].x) == ("nose", 0.5, 0.25)


def test_posenet_moves_points_from_their_cells_and_takes_quantised_ones() -> None:
    heat = np.zeros((1, 5, 5, 17), np.uint8)
    heat[0, 2, 3, 9] = 255
    offsets = np.full((1, 5, 5, 34), 128, np.uint8)
    offsets[0, 2, 3, 9], offsets[0, 2, 3, 17 + 9] = 138, 120
    steps = Quantization((0.5,), (128,))
    outputs = [
        tensor("offsets", offsets.shape, "u1", steps),
        tensor("heat", heat.shape, "u1", steps),
    ]
    model = described(outputs, (1, 65, 65, 3))
    (body,) = read_answer(model, {"offsets": offsets, "heat": heat}).key_points
    wrist = body.points[9]
    assert wrist.name == "left wrist"
    assert (wrist.y * 65, wrist.x * 65) == (2 * 16 + 5, 3 * 16 - 4)
    assert wrist.score == pytest.approx(1.0)
    assert sum(body.seen) == 1


def test_points_of_a_hand() -> None:
    shapes = {"a": (1, 63), "b": (1, 1), "c": (1, 1), "d": (1, 63)}
    found = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    found["a"][0, 3 * 8 : 3 * 8 + 3], found["b"][:] = (56, 112, 5), 0.9
    model = described(shapes, (1, 224, 224, 3))
    (hand,) = read_answer(model, found).key_points
    tip = hand.points[8]
    assert (hand.name, tip.name, tip.y, tip.x) == ("hand", "index finger tip", 0.5, 0.25)
    assert (hand.score, hand.edges) == (pytest.approx(0.9), HAND.edges)
    found["b"][:] = 0.1
    answer = read_answer(model, found)
    assert (answer.key_points, answer.known) == ((), True)
    assert "probably no object is present (score 0.10)" in answer.notes


def test_points_of_a_face_and_of_a_pose() -> None:
    shapes = {"points": (1, 1, 1, 1404), "flag": (1, 1, 1, 1)}
    found = {"points": np.full(shapes["points"], 96.0), "flag": np.full(shapes["flag"], 3.0)}
    (face,) = read_answer(described(shapes, (1, 192, 192, 3)), found).key_points
    assert (len(face.points), face.points[467].y) == (468, 0.5)
    pose = {"a": (1, 195), "b": (1, 1), "c": (1, 128, 128, 1), "d": (1, 64, 64, 39), "e": (1, 117)}
    numbers = {name: np.ones(shape) for name, shape in pose.items()}
    answer = read_answer(described(pose, (1, 256, 256, 3)), numbers)
    (body,), (mask,) = answer.key_points, answer.masks
    assert [one.name for one in body.points] == list(POSE.points)
    assert body.points[0].score == pytest.approx(1 / (1 + np.exp(-1)))
    assert [(one.name, one.share) for one in mask.shares] == [("person", 1.0)]


@pytest.mark.parametrize("channels_first", [False, True])
def test_classes_of_pixels(channels_first: bool) -> None:
    scores = np.zeros((1, 32, 32, 4), np.float32)
    scores[..., 2], scores[0, :8, :, 1] = 1, 2
    labels = ("background", "dog", "bird", "fish")
    shape = (1, 3, 64, 64) if channels_first else (1, 64, 64, 3)
    scores = np.moveaxis(scores, 3, 1) if channels_first else scores
    model = described({"y": scores.shape}, shape)
    (mask,) = read_answer(model, {"y": scores}, labels).masks
    assert [(one.label, one.share) for one in mask.shares] == [("bird", 0.75), ("dog", 0.25)]
    with pytest.raises(InputError, match="3 labels do not fit 4 classes"):
        read_answer(model, {"y": scores}, labels[1:])


def test_labels_of_metadata_make_a_mask_of_any_size() -> None:
    labels = ("background", "dog", "bird", "fish")
    model = described([tensor("y", (1, 2, 2, 4), said=labelled(*labels))])
    numbers = np.zeros((1, 2, 2, 4), np.float32)
    numbers[..., 2], numbers[0, 0, 0, 1] = 1, 2
    (mask,) = read_answer(model, {"y": numbers}).masks
    assert [(one.label, one.share) for one in mask.shares] == [("bird", 0.75), ("dog", 0.25)]


def test_a_map_of_classes_has_labels_of_values() -> None:
    classes = np.zeros((1, 513, 513), np.int64)
    classes[0, :, 256:] = 3
    model = described([tensor("y", classes.shape, "i8")], (1, 513, 513, 3), dtype="u1")
    answer = read_answer(model, {"y": classes})
    assert (answer.family, answer.masks[0].shares[0].name) == ("DeepLab", "bird")


@pytest.mark.parametrize("logits", [True, False])
def test_a_mask_of_a_person(logits: bool) -> None:
    numbers = np.full((1, 256, 256, 1), -4.0 if logits else 0.0, np.float32)
    numbers[0, :64] = 4.0 if logits else 0.75
    answer = read_answer(described({"y": numbers.shape}, (1, 256, 256, 3)), {"y": numbers})
    (mask,) = answer.masks
    assert [(one.name, one.share) for one in mask.shares] == [
        ("background", 0.75),
        ("person", 0.25),
    ]
    assert bool(answer.notes) is logits


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.0, 1.0, "from 0 to 1"), (-1.0, 1.0, "from -1 to 1"), (0.0, 255.0, "from 0 to 255")],
)
def test_pictures_by_their_numbers(low: float, high: float, words: str) -> None:
    numbers = np.linspace(low, high, 128 * 128 * 3, dtype=np.float32).reshape(1, 128, 128, 3)
    answer = read_answer(described({"y": numbers.shape}), {"y": numbers})
    (made,) = answer.pictures
    assert made.pixels.shape == (128, 128, 3)
    assert (made.pixels[0, 0, 0], made.pixels[-1, -1, -1]) == (0, 255)
    assert words in answer.notes[0]


def test_scores_are_no_picture() -> None:
    numbers = np.full((1, 64, 64, 3), -7.0, np.float32)
    numbers[..., 1] = 5.0
    answer = read_answer(described({"y": numbers.shape}), {"y": numbers})
    assert not answer.pictures
    assert answer.masks[0].shares[0].number == 1
    assert "are no pixels" in answer.notes[0]


def test_labels_of_metadata_make_a_mask_of_three_channels() -> None:
    outputs = [tensor("y", (1, 64, 64, 3), said=labelled("sky", "sea", "sand"))]
    answer = read_answer(
        described(outputs, metadata=ModelMetadata()), {"y": np.zeros((1, 64, 64, 3))}
    )
    assert [one.label for one in answer.masks[0].shares] == ["sky"]
