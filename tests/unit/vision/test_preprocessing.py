"""One rule decides how photographs go into a model: stated, metadata, family, graph, names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from described_models import described, tensor
from float_networks import GraphDraft, write_tflite
from onnx_writer import graph, model, node

import fourfold
from fourfold.compiler.input_ranges import input_ranges
from fourfold.errors import InputError
from fourfold.formats import read_model
from fourfold.graph.metadata import Normalization, TensorMetadata
from fourfold.processing.pixels import Pixels
from fourfold.vision import StatedPixels, ask, find_meaning, find_picture_input, read_answer
from fourfold.vision.describe import describe_model
from fourfold.vision.meaning import DescribedModel
from fourfold.vision.preprocessing import FROM_GRAPH

ROW = {"y": (1, 4)}
PHOTO = (1, 32, 32, 3)


def port(model: DescribedModel, **stated: Any) -> Any:
    return find_picture_input(model, StatedPixels(**stated))


def test_what_is_stated_overrides_only_that() -> None:
    palm = described({"r": (1, 2016, 18), "c": (1, 2016, 1)}, (1, 192, 192, 3))
    usual = port(palm).pixels
    assert (usual.mean, usual.std, usual.fit) == (0.0, 255.0, "letterbox")
    ranged = port(palm, range=(-1, 1))
    assert (ranged.pixels.mean, ranged.pixels.std, ranged.pixels.fit) == (127.5, 127.5, "letterbox")
    assert str(ranged) == "pixels from -1 to 1 in a letterbox, as stated"
    cropped = port(palm, fit="crop", model_order="bgr")
    assert (cropped.pixels.mean, cropped.pixels.fit) == (0.0, "crop")
    assert str(cropped).endswith("detector, with the stated fit and model order")
    assert "in BGR order" in str(cropped)


def test_a_scaling_is_stated_once() -> None:
    with pytest.raises(InputError, match="has no width"):
        StatedPixels(range=(1, 1))
    with pytest.raises(InputError, match="a range and a mean or std"):
        StatedPixels(range=(0, 1), std=2.0)
    assert StatedPixels.of(None).names == ()
    whole = StatedPixels.of(Pixels(1.0, 2.0, "bgr"))
    assert whole.changes() == {"mean": 1.0, "std": 2.0, "model_order": "rgb"}
    assert StatedPixels.of(Pixels(fit="crop")).fit == "crop"


def test_metadata_come_before_the_family_and_the_file() -> None:
    said = TensorMetadata(content="image", normalization=Normalization((0.0,), (51.0,)))
    inputs = (tensor("x", PHOTO, said=said),)
    named = described({"MobilenetV1/Predictions": (1, 4)})._replace(inputs=inputs)
    assert port(named).pixels.std == 51.0
    sound = replace(said, content="audio")
    assert port(named._replace(inputs=(tensor("x", PHOTO, said=sound),))).pixels.std == 127.5


@pytest.mark.parametrize(
    ("title", "low"),
    [("mobilenet_v2.tflite", -1.0), ("Inception-V3.tflite", -1.0), ("other.tflite", 0.0)],
)
def test_the_name_of_a_file_is_a_hint(title: str, low: float) -> None:
    found = port(described(ROW, PHOTO)._replace(title=title))
    assert found.to_json()["range"] == pytest.approx([low, 1])
    assert ("judging by the file's name" in str(found)) == (low < 0)


def test_channels_first_imagenet_classifiers_share_a_scaling() -> None:
    found = port(described({"y": (1, 1000)}, (1, 3, 224, 224)))
    assert found.pixels.mean == pytest.approx((123.675, 116.28, 103.53))
    assert found.pixels.std == pytest.approx((58.395, 57.12, 57.375))
    assert found.pixels.fit == "crop"
    assert port(described({"y": (1, 999)}, (1, 3, 224, 224))).pixels.mean == 0.0


def scaled_model(op: str, number: float, following: tuple[str, float] | None = None) -> bytes:
    draft = GraphDraft(image=PHOTO)
    value = "image"
    for name, (kind, constant) in (("a", (op, number)), ("b", following or ("", 0.0))):
        if kind:
            value = draft.node(
                kind, f"{name}/out", value, draft.constant(name, np.float32([constant]))
            )
    draft.node("relu", "y", value)
    return write_tflite(draft.graph("y"))


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ((("mul", 1 / 127.5), ("add", -1.0)), (0, 255)),
        ((("mul", 1 / 255),), (0, 255)),
        ((("div", 255.0),), (0, 255)),
        ((("mul", 2.0), ("sub", 1.0)), (0, 1)),
        ((("mul", 0.5), ("add", 0.5)), (-1, 1)),
        ((("mul", 10.0),), None),
    ],
)
def test_first_operators_show_the_range(operators: Any, expected: Any) -> None:
    read = read_model(scaled_model(*operators[0], *operators[1:]))
    assert input_ranges(read) == ({"image": expected} if expected else {})
    named = describe_model(read, "mobilenet.tflite")
    if expected:
        found = port(named)
        assert (found.to_json()["range"], found.told_by) == (list(expected), FROM_GRAPH)


def test_a_quantized_input_shows_its_range() -> None:
    for scale, zero, expected in ((2 / 255, 127, (-1, 1)), (1 / 255, 0, (0, 1)), (0.3, 0, None)):
        constants = {"s": np.float32(scale), "z": np.uint8(zero)}
        nodes = [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            node("Relu", ["d"], ["y"]),
        ]
        ports = [("x", "float", PHOTO)], [("y", "float", PHOTO)]
        read = read_model(model(graph(nodes, *ports, constants)))
        assert input_ranges(read) == ({"x": expected} if expected else {})


@pytest.mark.needs_device
def test_the_range_is_stored_with_the_compiled_model(tmp_path: Any) -> None:
    path = tmp_path / "scaled.tflite"
    path.write_bytes(scaled_model("mul", 1 / 127.5, ("add", -1.0)))
    fourfold.prepare(path, tmp_path / "app.fourfold", everywhere=False)
    for source in (path, path, tmp_path / "app.fourfold"):
        with fourfold.Session(source) as session:
            assert session.metadata.input_ranges == {"image": (0, 255)}
            assert not session.metadata
            found = port(session)  # type: ignore[arg-type]
            assert found.to_json()["range"] == [0, 255]


def test_yolox_is_told_from_yolo_v6() -> None:
    shape = {"output": (1, 3549, 85)}
    yolox = described(shape, (1, 3, 416, 416))
    assert str(port(yolox)).startswith("pixels from 0 to 255 in a letterbox, in BGR order")
    for other in (
        yolox._replace(title="YOLOv6_s.onnx"),
        described({"outputs": (1, 3549, 85)}, (1, 3, 416, 416)),
    ):
        meaning = find_meaning(other)
        assert meaning is not None
        assert meaning.family == "YOLO v6, 80 classes"
        assert str(port(other)).startswith("pixels from 0 to 1 in a letterbox, as is usual")


def test_inputs_with_alpha_and_batches() -> None:
    found = port(described(ROW, (1, 32, 32, 4)))
    array = found.array(np.full((9, 9, 4), 51, np.uint8))
    assert (array.shape, found.channels) == ((1, 32, 32, 4), 4)
    assert np.allclose(array, 0.2, atol=0.005)  # Pillow weights colors by alpha
    batch = find_picture_input(described(ROW, (2, 16, 16, 3)), name="image")
    assert batch is not None
    assert batch.array(np.zeros((5, 7, 3), np.uint8)).shape == (2, 16, 16, 3)


def test_boxes_end_at_the_edge_of_the_photograph() -> None:
    outputs = {"boxes": (1, 2, 4), "classes": (1, 2), "scores": (1, 2), "count": (1,)}
    corners = np.float32([[[-0.2, 0.1, 0.5, 1.3], [0.1, 0.2, 0.3, 0.4]]])
    arrays = {"boxes": corners, "classes": np.zeros((1, 2)), "scores": np.ones((1, 2))}
    answer = read_answer(described(outputs), {**arrays, "count": np.float32([2])})
    first, second = (box.corners for box in answer.boxes)
    assert first == pytest.approx((0, 0.1, 0.5, 1))
    assert second == pytest.approx((0.1, 0.2, 0.3, 0.4))


def test_a_made_picture_has_the_aspect_ratio_of_the_photograph() -> None:
    class Doubles:
        """A session that doubles both sides."""

        inputs, outputs, metadata, title = described({"y": (1, 128, 128, 3)}, (1, 64, 64, 3))

        def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"y": inputs["image"].repeat(2, 1).repeat(2, 2)}

    photograph = np.full((30, 60, 3), 255, np.uint8)
    session: Any = Doubles()
    answer = ask(session, photograph)
    (picture,) = answer.pictures
    assert picture.pixels.shape == (64, 128, 3)
    assert (picture.pixels == 255).all()  # without bars
    assert answer.draw(photograph).size == (128, 64)
