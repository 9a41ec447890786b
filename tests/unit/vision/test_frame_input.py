"""Sessions that take frames answer in the coordinates of the photograph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tflite_writer as writer
from described_models import described

import fourfold
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.graph.metadata import ModelMetadata
from fourfold.processing.pixels import Pixels
from fourfold.vision import Answer, ask, read_answer
from fourfold.vision.photographs import FrameInput, find_frame_input

SIDE = 32
LABELS = ("background", "red", "green", "blue")


def color_model() -> bytes:
    """Return a model that gives each pixel the class of its strongest color, or none if
    it is dark.
    """
    weights = np.zeros((4, 1, 1, 3), np.float32)
    weights[1:, 0, 0] = np.eye(3)
    tensors = [
        writer.Tensor("image", (1, SIDE, SIDE, 3)),
        writer.Tensor("w", weights.shape, data=weights),
        writer.Tensor("b", (4,), data=np.float32([0.5, 0, 0, 0])),
        writer.Tensor("y", (1, SIDE, SIDE, 4)),
    ]
    how = {"StrideW": 1, "StrideH": 1, "Padding": 1}
    convolution = writer.Operator("CONV_2D", ["image", "w", "b"], ["y"], "Conv2DOptions", how)
    return writer.write(tensors, [convolution], inputs=["image"], outputs=["y"])


def photograph(height: int = 48, width: int = 96) -> np.ndarray:
    """Return a picture that is red on the left and blue on the right."""
    found = np.zeros((height, width, 3), np.uint8)
    found[:, : width // 2, 0], found[:, width // 2 :, 2] = 255, 255
    return found


def halves(answer: Answer) -> list[str]:
    """Return the classes of the left and the right half of the mask; it has no others."""
    (mask,) = answer.masks
    middle = mask.classes.shape[1] // 2
    sides = (mask.classes[:, : middle - 1], mask.classes[:, middle + 1 :])
    return [LABELS[int(side.min())] for side in sides if side.min() == side.max()]


WAYS = {
    "plain": Pixels(0, 255),
    "plain, blue first": Pixels(0, 255, order="bgr"),
    "stretched": Pixels(0, 255, fit="stretch"),
    "in a letterbox": Pixels(0, 255, fit="letterbox", fill=0),
    "with alpha": Pixels(0, 255, fit="letterbox", fill=0, order="bgra"),
    "of one size": Pixels(0, 255, fit="letterbox", fill=0, size=(48, 96), into=(SIDE, SIDE)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_photograph_goes_in_as_a_frame(device: DeviceInfo, way: str) -> None:
    with fourfold.Session(color_model(), device, pixels=WAYS[way]) as session:
        answer = ask(session, photograph(), labels=LABELS)
    assert halves(answer) == ["red", "blue"]
    assert answer.size == (48, 96)
    assert answer.masks[0].corners == (0, 0, 1, 1)
    tall = SIDE // 2 if WAYS[way].fit == "letterbox" else SIDE  # the mask has no bars
    assert answer.masks[0].classes.shape == (tall, SIDE)
    assert f"as the session was opened: {WAYS[way].order}" in answer.notes[-1]


def test_the_model_keeps_its_size_when_frames_of_others_came(device: DeviceInfo) -> None:
    pixels = Pixels(0, 255, fit="letterbox", fill=0)
    with fourfold.Session(color_model(), device, pixels=pixels) as session:
        for size in ((48, 96), (20, 30), (96, 48)):
            answer = ask(session, photograph(*size), labels=LABELS)
            assert halves(answer) == ["red", "blue"]
            assert session.inputs[0].shape == (1, *size, 3)
            assert session.default_shapes == {"image": (1, SIDE, SIDE, 3)}


def test_the_mask_of_a_crop_is_in_the_center(device: DeviceInfo) -> None:
    pixels = Pixels(0, 255, fit="crop")
    with fourfold.Session(color_model(), device, pixels=pixels) as session:
        (mask,) = ask(session, photograph(), labels=LABELS).masks
    assert mask.corners == (0, 0.25, 1, 0.75)


def test_an_unknown_picture_size_is_an_error(device: DeviceInfo) -> None:
    model, shapes = color_model(), {"image": (1, 48, 96, 3)}
    pixels = Pixels(0, 255, fit="letterbox", fill=0)
    with fourfold.Session(model, device, shapes=shapes, pixels=pixels) as session:
        assert session.default_shapes == {}
        with pytest.raises(InputError, match="the size of the model's input picture is unknown"):
            ask(session, photograph())
    known = replace(pixels, into=(SIDE, SIDE))
    with fourfold.Session(model, device, shapes=shapes, pixels=known) as session:
        assert halves(ask(session, photograph(), labels=LABELS)) == ["red", "blue"]


def port(pixels: Pixels, batch: int = 1) -> FrameInput | None:
    model = described({"y": (1, 7, 84)}, (batch, 64, 64, pixels.bytes), dtype="u1")
    (info,) = model.inputs
    return find_frame_input(model._replace(inputs=(replace(info, pixels=str(pixels)),)))


def test_frames_that_a_photograph_cannot_be() -> None:
    with pytest.raises(InputError, match="camera frames in nv12"):
        port(Pixels(order="nv12", fit="letterbox"))
    sized = port(Pixels(size=(10, 20), into=(64, 64)))
    assert sized is not None
    with pytest.raises(InputError, match="the session was opened for frames of"):
        sized.fit(np.zeros((20, 10, 3), np.uint8))


def test_all_pictures_of_a_batch_are_the_photograph() -> None:
    found = port(Pixels(fit="stretch"), batch=2)
    assert found is not None
    array = found.array(photograph(10, 20))
    assert array.shape == (2, 10, 20, 3)
    assert (array[0] == array[1]).all()


@pytest.mark.parametrize("channels_first", [True, False])
def test_frames_do_not_hide_where_channels_are(channels_first: bool) -> None:
    scores = np.zeros((1, SIDE, SIDE, 4), np.float32)
    scores[:, :8, :, 2] = 1
    scores = np.moveaxis(scores, 3, 1) if channels_first else scores
    model = described({"y": scores.shape}, (1, 50, 90, 4), dtype="u1")
    pixels = Pixels(order="rgba", fit="stretch", into=(SIDE, SIDE))
    model = model._replace(inputs=(replace(model.inputs[0], pixels=str(pixels)),))
    (mask,) = read_answer(model, {"y": scores}, LABELS).masks
    assert [(one.name, one.share) for one in mask.shares] == [("background", 0.75), ("green", 0.25)]


class FakeSession:
    """A session for frames whose model returns a fixed result."""

    def __init__(self, pixels: Pixels, found: np.ndarray) -> None:
        metadata = ModelMetadata(properties={"names": "{0: 'cat', 1: 'dog', 2: 'bird'}"})
        model = described({"y": found.shape}, (1, 64, 64, 3), metadata, dtype="u1")
        self.inputs = (replace(model.inputs[0], pixels=str(pixels)),)
        self.outputs, self.metadata, self.found = model.outputs, metadata, found
        self.default_shapes = {"image": (1, 64, 64, 3)}
        self.given: Any = None

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.given = inputs["image"]
        self.inputs = (replace(self.inputs[0], shape=self.given.shape),)
        return {"y": self.found}


@pytest.mark.parametrize("fit", [None, "letterbox"])
def test_boxes_come_back_from_frames(fit: str | None) -> None:
    """YOLO needs a letterbox, which `ask` makes if the session takes pictures of one size."""
    rows = np.zeros((1, 7, 84), np.float32)
    rows[0, :, 3] = 32, 32, 32, 16, 0, 0.9, 0  # the letterbox has bars of 16 rows
    session: Any = FakeSession(Pixels(0, 255, fit=fit), rows)
    (box,) = ask(session, photograph(50, 100)).boxes
    assert (box.name, box.corners) == ("dog", pytest.approx((0.25, 0.25, 0.75, 0.75)))
    if fit is None:
        assert session.given.shape == (1, 64, 64, 3)
        assert (session.given[0, 5] == 114).all()
        assert session.given[0, 32, 5].tolist() == [255, 0, 0]
    else:
        np.testing.assert_array_equal(session.given[0], photograph(50, 100))
    answer = read_answer(session, {"y": rows})  # after a run, the session has another shape
    assert answer.boxes[0].corners == pytest.approx((0.375, 0.25, 0.625, 0.75))
