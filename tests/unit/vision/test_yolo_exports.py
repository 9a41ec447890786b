"""Outputs in the layouts of Ultralytics exports.

The expected numbers are the results of Ultralytics 8.4.190 for the same arrays.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from described_models import described, labelled, tensor

from fourfold.graph.metadata import ModelMetadata
from fourfold.processing.pixels.frame_fit import fit_frame
from fourfold.vision import Answer, ask, find_meaning, find_picture_input, read_answer
from fourfold.vision.meaning import METADATA, DescribedModel
from fourfold.vision.ultralytics import read_export_notes

NAMES = "{0: 'cat', 1: 'dog', 2: 'bird'}"
PICTURE = (1, 3, 64, 64)

# Left, top, right, bottom in a photograph of 20 × 40 pixels, score and class.
BOXES = [
    (0, 0, 19.592, 18.918, 0.274, 1),
    (8.155, 1.001, 29.921, 20, 0.271, 0),
    (1.946, 9.128, 18.887, 20, 0.266, 2),
    (7.31, 0, 24.862, 5.726, 0.258, 0),
    (0, 5.028, 21.784, 15.752, 0.251, 0),
]
# The class plus 1 for each pixel of the model's picture, in every eighth row.
MASK = (
    "0000000000000000000000001111111100011111000000000000000000000000",
    "0000000000001111000011111000111000000000000000000000000000000000",
    "2222222200000222010022222220000011111000000000000000000000000000",
    "0000222000000002222222200000111211110000000001100000000000000000",
    "2222222222222222222222222222222211110000000000000000000000000000",
    "2211111332233311333312222000333000011111111111110000000000000000",
    "0000033333330000000000000003111111110000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
)
# The center, width, height, angle, score and class of rotated boxes.
TURNED = (
    (20, 20, 20, 8, 0.5, 0.9, 1),
    (21, 20, 20, 8, 0.5, 0.8, 1),  # nearly equal to the first box
    (20, 20, 20, 8, -1.0, 0.7, 1),  # crosses the first box
    (20, 20, 20, 8, 0.5, 0.6, 0),  # another class
    (44, 40, 10, 30, 1.2, 0.5, 2),
    (45, 40, 11, 30, 1.3, 0.45, 2),  # nearly equal to the last box
    (10, 50, 8, 8, 0, 0.1, 1),  # its score is too low
)
TURNED_CORNERS = (
    (26.858, 28.305, 30.694, 21.284, 13.142, 11.695, 9.306, 18.716),
    (28.769, 13.746, 22.037, 9.424, 11.231, 26.254, 17.963, 30.576),
    (26.858, 28.305, 30.694, 21.284, 13.142, 11.695, 9.306, 18.716),
    (31.831, 50.096, 59.792, 39.225, 56.169, 29.904, 28.208, 40.775),
)


def about(**more: str) -> ModelMetadata:
    return ModelMetadata(properties={"names": NAMES, **more})


def rows_of(answer: Answer, size: tuple[int, int]) -> np.ndarray:
    found = [
        (*np.array(one.pixels(size))[[1, 0, 3, 2]], one.score, one.number) for one in answer.boxes
    ]
    return np.array(found)


def segmented() -> tuple[np.ndarray, np.ndarray]:
    """Return random boxes with random masks."""
    random = np.random.default_rng(7)
    rows = np.zeros((1, 4 + 3 + 32, 84), np.float32)
    rows[0, :2], rows[0, 2:4] = random.uniform(8, 56, (2, 84)), random.uniform(12, 40, (2, 84))
    rows[0, 4:7] = random.uniform(0, 0.65, (3, 84)) ** 3
    rows[0, 7:] = random.normal(size=(32, 84))
    return rows, random.normal(size=(1, 32, 16, 16)).astype(np.float32)


@pytest.mark.parametrize("unit", ["pixels", "fractions"])
def test_boxes_and_masks_are_those_of_ultralytics(unit: str) -> None:
    rows, planes = segmented()
    rows[0, :4] /= 64 if unit == "fractions" else 1
    model = described({"y": rows.shape, "p": planes.shape}, PICTURE, about(task="segment"))
    size, fit = (20, 40), fit_frame((20, 40), (64, 64), "letterbox")
    answer = read_answer(model, {"y": rows, "p": planes}, fit=fit, frame=size)
    np.testing.assert_allclose(rows_of(answer, size), BOXES, atol=2e-3)
    assert answer.boxes[0].label == "dog"
    (mask,) = read_answer(model, {"y": rows, "p": planes}).masks
    assert tuple("".join(map(str, row)) for row in mask.classes[::8]) == MASK
    (cut,) = answer.masks
    np.testing.assert_array_equal(cut.classes, mask.classes[16:48])


def test_picked_rows_with_masks() -> None:
    """Exports with built-in suppression have the same boxes and the same masks."""
    rows, planes = segmented()
    model = described({"y": rows.shape, "p": planes.shape}, PICTURE, about(task="segment"))
    wanted = read_answer(model, {"y": rows, "p": planes})
    picked = np.zeros((1, 300, 38), np.float32)
    for place, box in enumerate(wanted.boxes):
        cell = int(np.abs(rows[0, 4:7].max(0) - box.score).argmin())
        x, y, wide, tall = rows[0, :4, cell]
        corners = (x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2)
        picked[0, place] = (*corners, box.score, box.number, *rows[0, 7:, cell])
    model = described({"y": picked.shape, "p": planes.shape}, PICTURE, about(task="segment"))
    answer = read_answer(model, {"y": picked, "p": planes})
    np.testing.assert_allclose(rows_of(answer, (64, 64)), rows_of(wanted, (64, 64)), atol=1e-4)
    np.testing.assert_array_equal(answer.masks[0].classes, wanted.masks[0].classes)
    assert answer.kinds == ("boxes", "masks")
    assert json.loads(json.dumps(answer.to_json()))["boxes"][0]["label"] == "dog"


@pytest.mark.parametrize("objectness", [True, False])
def test_a_box_without_a_mask_counts_until_v7(objectness: bool) -> None:
    columns = 4 + objectness + 3 + 32
    cells = np.zeros((1, 84, columns), np.float32)
    cells[0, 3, :4], cells[0, 3, 4 : 4 + objectness + 3] = 32, 1
    cells[0, 3, -32] = -1
    planes = np.ones((1, 32, 16, 16), np.float32)
    model = described({"y": cells.shape, "p": planes.shape}, PICTURE, about())
    answer = read_answer(model, {"y": cells, "p": planes})
    assert len(answer.boxes) == objectness
    assert not answer.masks[0].classes.any()


def turned_model(shape: tuple[int, ...]) -> DescribedModel:
    return described({"y": shape}, PICTURE, about(task="obb"))


def turned_cells() -> np.ndarray:
    found = np.zeros((1, 4 + 3 + 1, 84), np.float32)
    for place, (*box, angle, score, number) in enumerate(TURNED):
        found[0, :4, 7 * place + 3] = box
        found[0, 4 + int(number), 7 * place + 3], found[0, 7, 7 * place + 3] = score, angle
    return found


@pytest.mark.parametrize("unit", ["pixels", "fractions"])
def test_turned_boxes(unit: str) -> None:
    cells = turned_cells()
    cells[0, :4] /= 64 if unit == "fractions" else 1
    answer = read_answer(turned_model(cells.shape), {"y": cells})
    corners = [[(64 * point.x, 64 * point.y) for point in one.points] for one in answer.boxes]
    np.testing.assert_allclose(np.reshape(corners, (4, 8)), TURNED_CORNERS, atol=2e-3)
    assert [round(one.score, 3) for one in answer.boxes] == [0.9, 0.7, 0.6, 0.5]
    assert [one.name for one in answer.boxes] == ["dog", "dog", "cat", "bird"]
    around = np.array(answer.boxes[0].pixels((64, 64)))
    np.testing.assert_allclose(around, (11.695, 9.306, 28.305, 30.694), atol=2e-3)
    assert answer.boxes[0].edges == ((0, 1), (1, 2), (2, 3), (3, 0))


def test_turned_boxes_in_a_picture_that_is_wide() -> None:
    """Coordinates are fractions of different sides, but angles are measured in pixels."""
    cells = np.zeros((1, 8, 42), np.float32)
    cells[0, :4, 5] = 32 / 64, 16 / 32, 20 / 64, 8 / 32
    cells[0, 5, 5], cells[0, 7, 5] = 0.9, np.pi / 2
    model = described({"y": cells.shape}, (1, 3, 32, 64), about(task="obb"))
    (box,) = read_answer(model, {"y": cells}).boxes
    assert box.pixels((32, 64)) == pytest.approx((6, 28, 26, 36), abs=1e-4)


def test_turned_boxes_that_are_picked() -> None:
    rows = np.zeros((1, 300, 7), np.float32)
    for place, (*box, angle, score, number) in enumerate(TURNED[:1]):
        rows[0, place] = (*box, score, number, angle)
    (box,) = read_answer(turned_model(rows.shape), {"y": rows}).boxes
    corners = [(64 * point.x, 64 * point.y) for point in box.points]
    np.testing.assert_allclose(np.ravel(corners), TURNED_CORNERS[0], atol=2e-3)
    assert (box.name, box.score) == ("dog", pytest.approx(0.9))
    plain = described({"y": rows.shape}, PICTURE, about())
    assert find_meaning(plain) is None  # the meaning of a seventh column is unknown


POINTS = {"task": "pose", "kpt_shape": "[5, 2]", "kpt_names": "{0: ['a', 'b_c', 'd', 'e', 'f']}"}


@pytest.mark.parametrize("picked", [False, True])
def test_key_points_are_as_many_as_the_model_says(picked: bool) -> None:
    shape = (1, 300, 6 + 10) if picked else (1, 4 + 3 + 10, 84)
    found = np.zeros(shape, np.float32)
    if picked:
        found[0, 0] = (16, 16, 48, 48, 0.9, 1, *range(10))
    else:
        found[0, :4, 5], found[0, 5, 5], found[0, 7:, 5] = (32, 32, 32, 32), 0.9, range(10)
    model = described({"y": shape}, PICTURE, about(**POINTS))
    (box,) = read_answer(model, {"y": found}).boxes
    assert (box.name, box.corners) == ("dog", pytest.approx((0.25, 0.25, 0.75, 0.75)))
    assert [one.name for one in box.points] == ["a", "b c", "d", "e", "f"]
    assert [(64 * one.x, 64 * one.y, one.score) for one in box.points[1:3]] == [
        (2, 3, None),
        (4, 5, None),
    ]
    assert box.edges == ()


def test_boxes_end_where_the_photograph_does() -> None:
    rows = np.zeros((1, 84, 7), np.float32)
    rows[0, 3] = 32, 32, 200, 60, 0, 0.9, 0
    rows = np.ascontiguousarray(rows.swapaxes(1, 2))
    model = described({"y": rows.shape}, PICTURE, about(task="detect"))
    fit = fit_frame((32, 64), (64, 64), "letterbox")
    (box,) = read_answer(model, {"y": rows}, fit=fit, frame=(32, 64)).boxes
    assert box.corners == (0, 0, 1, 1)


@pytest.mark.parametrize(("shift", "left"), [(8, 2), (3, 1)])
def test_boxes_may_overlap_by_seven_tenths(shift: int, left: int) -> None:
    """With an overlap of 0.6 both boxes remain, with 0.83 only the better one."""
    rows = np.zeros((1, 7, 84), np.float32)
    rows[0, :, 3], rows[0, :, 4] = (32, 32, 32, 32, 0, 0.9, 0), (32 + shift, 32, 32, 32, 0, 0.8, 0)
    answer = read_answer(described({"y": rows.shape}, PICTURE, about()), {"y": rows})
    assert len(answer.boxes) == left


def test_a_box_more_than_twice_as_large_as_the_picture_is_still_a_fraction() -> None:
    rows = np.zeros((1, 7, 84), np.float32)
    rows[0, :4] = np.array([0.5, 0.5, 0.25, 0.25])[:, None]
    rows[0, 2:4, 3], rows[0, 5, 3] = 4.5, 0.9
    rows[0, 4, 9] = 0.8
    answer = read_answer(described({"y": rows.shape}, PICTURE, about()), {"y": rows})
    assert [one.corners for one in answer.boxes][1] == pytest.approx((0.375, 0.375, 0.625, 0.625))
    assert "fractions" in answer.notes[0]


@pytest.mark.parametrize("rows_first", [True, False])
def test_boxes_that_are_offsets_from_their_cells(rows_first: bool) -> None:
    """Raw output of YOLOX: the seventh cell of the second row, with sizes as logarithms."""
    random = np.random.default_rng(0)
    rows = np.full((1, 84, 8), 0.01, np.float32)
    rows[0, :, :2], rows[0, :, 2:4] = (
        random.uniform(-0.5, 1.5, (84, 2)),
        random.normal(size=(84, 2)),
    )
    rows[0, 14] = 0.5, 0.25, np.log(2), np.log(1.5), 0.9, 0, 0.8, 0
    found = rows if rows_first else np.ascontiguousarray(rows.swapaxes(1, 2))
    model = described({"y": found.shape}, PICTURE, about())
    answer = read_answer(model, {"y": found})
    (box,) = answer.boxes
    assert (box.name, box.score) == ("dog", pytest.approx(0.72))
    assert box.pixels((64, 64)) == pytest.approx((4, 44, 16, 60), abs=1e-4)
    assert answer.family == "YOLOX, 3 classes"
    assert "offsets from cells" in answer.notes[-1]


def test_decoded_boxes_of_cells_with_objectness_are_no_offsets() -> None:
    """Output of YOLOv6: centers are those of cells."""
    rows = np.full((1, 84, 8), 0.01, np.float32)
    middles = [
        (x, y) for s in (8, 16, 32) for y in range(s // 2, 64, s) for x in range(s // 2, 64, s)
    ]
    rows[0, :, :2], rows[0, :, 2:4], rows[0, :, 4] = middles, 16, 1
    rows[0, 14, 6] = 0.8
    answer = read_answer(described({"y": rows.shape}, PICTURE, about()), {"y": rows})
    (box,) = answer.boxes
    assert box.pixels((64, 64)) == pytest.approx((4, 44, 20, 60), abs=1e-4)
    assert len(answer.notes) == 1


def test_boxes_of_a_fourth_finer_grid() -> None:
    rows = np.zeros((1, 7, 256 + 64 + 16 + 4), np.float32)
    rows[0, :, 300] = 32, 32, 32, 32, 0, 0.9, 0
    (box,) = read_answer(described({"y": rows.shape}, PICTURE, about()), {"y": rows}).boxes
    assert (box.name, box.corners) == ("dog", pytest.approx((0.25, 0.25, 0.75, 0.75)))


class FakeSession:
    """A session with everything that `ask` needs; `given` is the input of its last run."""

    def __init__(self, model: DescribedModel, found: dict[str, np.ndarray]) -> None:
        self.inputs, self.outputs, self.metadata, _ = model
        self.found = found
        self.given: dict[str, np.ndarray] = {}

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.given = inputs
        return self.found


def test_a_classifier_sees_the_middle_of_a_photograph() -> None:
    model = described({"y": (1, 3)}, (1, 3, 16, 16), about(task="classify"))
    session: Any = FakeSession(model, {"y": np.float32([[0.1, 0.7, 0.2]])})
    photograph = np.zeros((32, 96, 3), np.uint8)
    photograph[:, 32:64] = 255  # the model sees only the center
    answer = ask(session, photograph)
    assert (session.given["image"] == 1).all()
    assert (answer.classes[0].name, answer.told_by) == ("dog", METADATA)
    assert "pixels from 0 to 1 of the photograph's middle, as is usual for YOLO classification" in (
        answer.notes
    )


def test_classes_of_pixels_in_a_letterbox() -> None:
    classes = np.zeros((1, 32, 32), np.int32)
    classes[0, :, 16:] = 2
    model = described([tensor("y", classes.shape, "i4")], (1, 3, 32, 32), about(task="semantic"))
    port = find_picture_input(model)
    assert port is not None
    assert "in a letterbox" in str(port)
    fit = port.fit(np.zeros((16, 32, 3), np.uint8))
    (mask,) = read_answer(model, {"y": classes}, fit=fit, frame=(16, 32)).masks
    assert mask.classes.shape == (16, 32)
    assert [(one.name, one.share) for one in mask.shares] == [("cat", 0.5), ("bird", 0.5)]
    assert not mask.background  # 'cat' has a meaning


@pytest.mark.parametrize(
    "metadata",
    [
        about(task="pose", kpt_shape="[4, 3]"),
        ModelMetadata(properties={"names": '{"0": "cat", "1": "dog", "2": "bird"}'}),
        ModelMetadata(properties={"names": "['cat', 'dog', 'bird']"}),
        ModelMetadata(outputs=(labelled(f"{{'names': {NAMES}, 'task': 'pose'}}"),)),
        ModelMetadata(outputs=(labelled(NAMES),)),
    ],
)
def test_notes_are_found_wherever_they_are(metadata: ModelMetadata) -> None:
    assert read_export_notes(metadata).names == ("cat", "dog", "bird")


@pytest.mark.parametrize("names", ["{0: 'cat', 2: 'dog'}", "{", "cat", "[" * 10_000, "{1: 2}", "7"])
def test_invalid_class_names_are_ignored(names: str) -> None:
    assert read_export_notes(ModelMetadata(properties={"names": names, "task": "pose"})).names == ()


@pytest.mark.parametrize("shape", ["[17]", "(0, 3)", "[17, 4]", "17", "{1: 2, 3: 4}", "['a', 3]"])
def test_invalid_point_shapes_are_ignored(shape: str) -> None:
    assert read_export_notes(about(kpt_shape=shape)).point_shape is None
