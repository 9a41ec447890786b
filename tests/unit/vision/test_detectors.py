"""Boxes of every detector family, from raw outputs with one object at a known position."""

from __future__ import annotations

import numpy as np
import pytest
from described_models import described, labelled, tensor

from fourfold.errors import InputError
from fourfold.graph.metadata import ModelMetadata
from fourfold.processing.anchors import SsdAnchors, cell_anchors
from fourfold.processing.boxes import FAMILIES
from fourfold.vision import Answer, find_meaning, read_answer
from fourfold.vision.families.ultraface import ultraface_anchors

CORNERS = (0.25, 0.125, 0.75, 0.625)  # top, left, bottom, right
CENTRE = np.array((0.5, 0.375, 0.5, 0.5))  # y, x, height, width
ANIMALS = ("cat", "dog", "bird")
ABOUT = ModelMetadata(properties={"names": "{0: 'cat', 1: 'dog', 2: 'bird'}"})
FOUR = {"boxes": (1, 3, 4), "kinds": (1, 3), "sure": (1, 3), "many": (1,)}
FAR = -9.0  # the logit of an absent object


def only_box(answer: Answer, name: str, score: float) -> None:
    (box,) = answer.boxes
    assert (box.name, box.score) == (name, pytest.approx(score, abs=1e-4))
    assert box.corners == pytest.approx(CORNERS, abs=1e-4)


@pytest.mark.parametrize(
    "order", [("boxes", "kinds", "sure", "many"), ("sure", "boxes", "many", "kinds")]
)
def test_boxes_that_a_model_picks_itself_come_in_any_order(order: tuple[str, ...]) -> None:
    said = {"kinds": labelled(*ANIMALS, kind="value")}
    model = described([tensor(name, FOUR[name], said=said.get(name)) for name in order])
    found = {
        "boxes": np.float32([[CORNERS, (0, 0, 1, 1), (0, 0, 1, 1)]]),
        "kinds": np.float32([[1, 2, 0]]),
        "sure": np.float32([[0.875, 0.125, 0.625]]),
        "many": np.float32([2]),
    }
    answer = read_answer(model, found)
    only_box(answer, "dog", 0.875)  # the second score is too low, and the third box is not counted
    assert answer.notes == ("classes and scores are identified by their values",)
    assert len(read_answer(model, found, score=0.1).boxes) == 2


def test_labels_of_a_caller_must_reach_far_enough() -> None:
    found = {"boxes": np.zeros((1, 3, 4)), "kinds": np.float32([[7, 0, 0]])}
    found |= {"sure": np.float32([[0.9, 0.5, 0.5]]), "many": np.float32([3])}
    with pytest.raises(InputError, match="class 7 has no label"):
        read_answer(described(FOUR), found, ANIMALS)
    labels = ("???", *"abcdefgh")
    assert read_answer(described(FOUR), found, labels).boxes[0].label == "h"


def test_raw_ssd() -> None:
    rows = SsdAnchors().rows((64, 64))
    picture, place = (1, 64, 64, 3), len(rows) // 2
    offsets, logits = np.zeros((1, len(rows), 4)), np.full((1, len(rows), 4), FAR)
    offsets[0, place, :2] = (CENTRE[:2] - rows[place, :2]) / rows[place, 2:] * 10
    offsets[0, place, 2:] = np.log(CENTRE[2:] / rows[place, 2:]) * 5
    logits[0, place, 2] = 2.0
    # There are as many classes as coordinates, so that only names identify the outputs.
    model = described({"box_encodings": offsets.shape, "kinds": logits.shape}, picture)
    found = {"box_encodings": offsets.astype(np.float32), "kinds": logits.astype(np.float32)}
    only_box(read_answer(model, found, ANIMALS), "dog", 1 / (1 + np.exp(-2.0)))
    assert "logits" in read_answer(model, found).notes[0]
    with pytest.raises(InputError, match="2 labels do not fit 3 classes"):
        read_answer(model, found, ANIMALS[:2])


@pytest.mark.parametrize(
    ("family", "columns", "side", "point"),
    [
        ("face", 16, 128, "nose tip"),
        ("face_back", 16, 256, "nose tip"),
        ("hand", 18, 192, "middle finger base"),
        ("pose", 12, 224, "middle of the shoulders"),
    ],
)
def test_mediapipe_detectors(family: str, columns: int, side: int, point: str) -> None:
    rows = cell_anchors((side, side), *FAMILIES[family])
    raw, logits = np.zeros((1, len(rows), columns)), np.full((1, len(rows), 1), FAR)
    place = 371
    raw[0, place, :2] = (CENTRE[[1, 0]] - rows[place, [1, 0]]) * side
    raw[0, place, 2:4] = CENTRE[[3, 2]] * side
    raw[0, place, 8:10] = (np.array((0.5, 0.25)) - rows[place, [1, 0]]) * side
    logits[0, place] = 3.0
    model = described({"r": raw.shape, "c": logits.shape}, (1, side, side, 3))
    answer = read_answer(model, {"r": raw.astype(np.float32), "c": logits.astype(np.float32)})
    only_box(answer, {"hand": "palm", "pose": "body"}.get(family, "face"), 1 / (1 + np.exp(-3.0)))
    (named,) = (one for one in answer.boxes[0].points if one.name == point)
    assert (named.y, named.x) == pytest.approx((0.25, 0.5), abs=1e-4)


@pytest.mark.parametrize("decoded", [True, False])
def test_ultraface_decoded_or_not(decoded: bool) -> None:
    rows, size = ultraface_anchors((240, 320)), (1, 3, 240, 320)
    place, scores = 4300, np.tile(np.float32([1, 0]), (1, len(rows), 1))
    scores[0, place] = 0.0625, 0.9375
    boxes = np.tile(np.float32([0.0, 0.0, 0.1, 0.1]), (1, len(rows), 1))
    boxes[0, place] = np.array(CORNERS)[[1, 0, 3, 2]]
    if not decoded:
        boxes = np.zeros_like(boxes)
        offsets = (CENTRE[:2] - rows[place, :2]) / rows[place, 2:] * 10
        sizes = np.log(CENTRE[2:] / rows[place, 2:]) * 5
        boxes[0, place] = offsets[1], offsets[0], sizes[1], sizes[0]
    model = described({"scores": scores.shape, "boxes": boxes.shape}, size)
    only_box(read_answer(model, {"scores": scores, "boxes": boxes}), "face", 0.9375)


def yolo_row(columns: int, size: int, extra: int) -> np.ndarray:
    """Return x, y, width and height in pixels, an objectness score if there is one, and class
    scores.
    """
    row = np.zeros(columns)
    row[:4] = CENTRE[[1, 0, 3, 2]] * size
    row[4 : 4 + extra] = 0.9375
    row[4 + extra + 1] = 0.8
    return row


@pytest.mark.parametrize("fractions", [True, False])
@pytest.mark.parametrize("version", ["v5", "v8"])
def test_yolo(version: str, fractions: bool) -> None:
    extra, in_cell = (1, 3) if version == "v5" else (0, 1)
    cells = in_cell * (8 * 8 + 4 * 4 + 2 * 2)
    rows = np.zeros((1, cells, 4 + extra + 3), np.float32)
    rows[0, 5] = yolo_row(rows.shape[2], 1 if fractions else 64, extra)
    array = rows if version == "v5" else np.ascontiguousarray(rows.swapaxes(1, 2))
    model = described({"y": array.shape}, (1, 3, 64, 64), ABOUT)
    answer = read_answer(model, {"y": array})
    only_box(answer, "dog", 0.8 * (0.9375 if extra else 1))
    assert ("fractions" if fractions else "pixels") in answer.notes[0]
    plain = described({"y": array.shape}, (1, 3, 64, 64))
    only_box(read_answer(plain, {"y": array}), "class 1", 0.8 * (0.9375 if extra else 1))
    only_box(read_answer(plain, {"y": array}, ANIMALS), "dog", 0.8 * (0.9375 if extra else 1))


def test_yolo_with_points_of_bodies() -> None:
    rows = np.zeros((1, 56, 84), np.float32)
    rows[0, :4, 7] = CENTRE[[1, 0, 3, 2]] * 64
    rows[0, 4, 7] = 0.9
    rows[0, 5:8, 7] = 32, 16, 0.75  # the nose
    answer = read_answer(described({"y": rows.shape}, (1, 3, 64, 64)), {"y": rows})
    only_box(answer, "person", 0.9)
    nose = answer.boxes[0].points[0]
    assert (nose.name, nose.x, nose.y, nose.score) == ("nose", 0.5, 0.25, 0.75)
    assert (5, 7) in answer.boxes[0].edges


@pytest.mark.parametrize("channels_first", [True, False])
def test_yolo_with_masks(channels_first: bool) -> None:
    rows = np.zeros((1, 4 + 3 + 32, 84), np.float32)
    rows[0, :7, 7] = yolo_row(7, 64, 0)
    rows[0, 7, 7] = 1.0
    planes = np.zeros((1, 32, 16, 16), np.float32)
    planes[0, 0] = np.where(np.indices((16, 16))[0] < 8, 5, -5)  # the upper half
    planes = planes if channels_first else np.moveaxis(planes, 1, 3)
    model = described({"y": rows.shape, "p": planes.shape}, (1, 3, 64, 64), ABOUT)
    answer = read_answer(model, {"y": rows, "p": planes})
    only_box(answer, "dog", 0.8)
    (mask,) = answer.masks
    wanted = np.zeros((64, 64), int)
    wanted[16:32, 8:40] = 2
    np.testing.assert_array_equal(mask.classes, wanted)
    assert [one.label for one in mask.shares] == ["", "dog"]


@pytest.mark.parametrize("form", ["tiny", "v5"])
def test_heads_of_yolo(form: str) -> None:
    """The box is at the center of a cell and has the size of its first anchor."""
    if form == "tiny":
        shapes, anchor = {"a": (1, 4, 4, 24), "b": (1, 2, 2, 24)}, (14, 10)
    else:
        shapes = {"a": (1, 3, 8, 8, 8), "b": (1, 3, 4, 4, 8), "c": (1, 3, 2, 2, 8)}
        anchor = (13, 10)
    found = {name: np.full(shape, FAR, np.float32) for name, shape in shapes.items()}
    row = found["a"][0, 1, 2, :8] if form == "tiny" else found["a"][0, 0, 1, 2]
    row[:] = (0, 0, 0, 0, 4, FAR, 4, FAR)
    model = described(shapes, (1, 64, 64, 3), ABOUT)
    (box,) = read_answer(model, found).boxes
    cells = 4 if form == "tiny" else 8
    y, x = 1.5 / cells, 2.5 / cells
    height, width = anchor[0] / 64, anchor[1] / 64
    wanted = (y - height / 2, x - width / 2, y + height / 2, x + width / 2)
    assert box.corners == pytest.approx(wanted, abs=1e-4)
    assert (box.label, box.score) == ("dog", pytest.approx(0.9643, abs=1e-3))


def test_fastestdet() -> None:
    found = np.full((1, 8, 4, 4), FAR, np.float32)
    found[0, :, 2, 1] = 0.9, np.arctanh(0.5), np.arctanh(0.0), 0.0, 0.0, 0.1, 0.8, 0.1
    answer = read_answer(described({"y": found.shape}, (1, 3, 64, 64), ABOUT), {"y": found})
    only_box(answer, "dog", 0.9**0.6 * 0.8**0.4)


def test_rows_that_are_picked() -> None:
    rows = np.zeros((1, 10, 6), np.float32)
    rows[0, 0] = (*(np.array(CORNERS)[[1, 0, 3, 2]] * 64), 0.75, 2)
    only_box(read_answer(described({"y": rows.shape}, metadata=ABOUT), {"y": rows}), "bird", 0.75)


def test_boxes_of_post_processing() -> None:
    shapes = {"boxes": (1, 4, 4), "scores": (1, 4), "classes": (1, 4), "count": (1,)}
    found = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    found["boxes"][0, 0], found["scores"][0, 0], found["count"][0] = CORNERS, 0.5, 1
    only_box(read_answer(described(shapes), found), "class 0", 0.5)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_noted(broken: float) -> None:
    found = {name: np.full(shape, broken, np.float32) for name, shape in FOUR.items()}
    answer = read_answer(described(FOUR), found)
    assert "values that are NaN or infinite: 12 of boxes, 3 of kinds" in answer.notes[-1]
    pytest.importorskip("PIL.Image", reason="Pillow draws")
    answer.draw(np.zeros((30, 40, 3), np.uint8))


def test_similar_outputs_are_not_mistaken_for_a_detector() -> None:
    for shapes in (
        {"a": (1, 100, 4), "b": (1, 100, 3)},  # unknown anchors
        {"a": (1, 85, 7, 7)},  # positions are in cells, not in pixels
        {"a": (1, 999, 16), "b": (1, 999, 1)},
        {"a": (1, 2), "b": (1, 4)},
    ):
        assert find_meaning(described(shapes)) is None
