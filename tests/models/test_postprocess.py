"""Real detectors on photographs: boxes computed on the device equal boxes computed with NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plain_detectors as plain
import pytest
from model_collection import MODELS, SHARED, at_hand

import fourfold
from fourfold import processing
from fourfold.device import DeviceInfo
from fourfold.formats import read_model
from fourfold.processing.anchors import cell_anchors
from fourfold.processing.boxes import FAMILIES
from fourfold.processing.pictures import read_picture

FACES = Path(__file__).resolve().parents[2] / "docs" / "faces.jpg"
LIMITS = (0.3, 0.4, 20)


def path_of(name: str) -> Path:
    return at_hand(MODELS / name)


def photographs(size: tuple[int, int]) -> list[np.ndarray]:
    """Return photographs as bytes [1, height, width, 3]."""
    pytest.importorskip("PIL", reason="Pillow reads photographs")
    names = ("grace_hopper.bmp", "cats_and_dogs.jpg", "squat.bmp", "burger.jpg")
    paths = [FACES, *(SHARED / "inputs" / name for name in names)]
    return [read_picture(path, 3, (size[1], size[0]))[None] for path in paths if path.is_file()]


def run_both(
    path: Path, option: object, arrays: list[np.ndarray], **options: object
) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Return for each array the model's own outputs and the postprocessed ones."""
    with (
        fourfold.Session(path, cache=None, **options) as own,
        fourfold.Session(path, cache=None, postprocess=option, **options) as session,
    ):
        return [(own.run(array), session.run(array)) for array in arrays]


def check_close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found[: len(wanted)], wanted, atol=2e-5, rtol=2e-5)
    assert not found[len(wanted) :].any()


DETECTORS = {
    "face": ("face_detection_short_range", 128, -1),
    "hand": ("palm_detection_lite", 192, 0),
    "pose": ("pose_detection", 224, -1),
}


@pytest.mark.parametrize(
    ("family", "where"),
    [*((family, "device") for family in DETECTORS), ("face", "mixed"), ("face", "cpu")],
)
def test_mediapipe_detectors(family: str, where: str, device: DeviceInfo) -> None:
    name, size, low = DETECTORS[family]
    path, anchors = path_of(f"tflite/{name}.tflite"), cell_anchors((size, size), *FAMILIES[family])
    arrays = [low + (1 - low) * one / np.float32(255) for one in photographs((size, size))]
    option = processing.MediaPipeBoxes(*LIMITS, family=family)
    options = {"device": "cpu"} if where == "cpu" else {"device": device}
    options |= {"precision": "mixed"} if where == "mixed" else {}
    seen = 0
    for raw, result in run_both(path, option, arrays, **options):
        boxes, logits = sorted(raw.values(), key=lambda array: -array.shape[2])
        rows = plain.mediapipe_rows(boxes[0], anchors, size)
        expected, scores = plain.blended(rows, plain.sigmoid(logits[0, :, 0]), LIMITS)
        assert result["count"].tolist() == [len(scores)]
        check_close(result["boxes"][0], expected[:, :4])
        check_close(result["keypoints"][0].reshape(LIMITS[2], -1), expected[:, 4:])
        check_close(result["scores"][0], scores)
        seen += len(scores)
    assert seen > 0


@pytest.mark.parametrize("where", ["device", "cpu"])
def test_ssd_with_anchors_from_shapes(where: str, device: DeviceInfo) -> None:
    path = path_of("tflite/ssd_mobilenet_v2_fp16.tflite")
    arrays = [one / np.float32(127.5) - 1 for one in photographs((300, 300))]
    option = processing.SsdBoxes(*LIMITS, logistic=True)
    anchors, seen = processing.SsdAnchors().rows((300, 300)), 0
    for raw, result in run_both(path, option, arrays, device="cpu" if where == "cpu" else device):
        boxes = plain.ssd_corners(raw["raw_outputs/box_encodings"][0], anchors)
        table = plain.sigmoid(raw["raw_outputs/class_predictions"][0, :, 1:])
        expected = plain.best_boxes(boxes, table, LIMITS, False)
        assert result["count"].tolist() == [len(expected.scores)]
        check_close(result["boxes"][0], expected.boxes)
        check_close(result["scores"][0], expected.scores)
        check_close(result["classes"][0], expected.classes)
        seen += len(expected.scores)
    assert seen > 0


def test_ssd_boxes_equal_the_tflite_operator(tmp_path: Path, device: DeviceInfo) -> None:
    """A quantized model is cut before its decoding operator and uses that operator's anchors."""
    path, short = path_of("tflite/ssd_mobilenet_v1_uint8.tflite"), tmp_path / "short.tflite"
    fourfold.optimize(path, short, outputs=("Squeeze", "convert_scores"))
    graph = read_model(str(path)).main
    (node,) = (node for node in graph.nodes if node.op == "detection")
    anchors = graph.constants[str(node.inputs[2])]
    option = processing.SsdBoxes(0.0, 0.6, 10, anchors=anchors)
    with (
        fourfold.Session(path, device, cache=None) as own,
        fourfold.Session(short, device, cache=None, postprocess=option) as session,
    ):
        for picture in photographs((300, 300)):
            boxes, classes, scores, count = own.run(picture).values()
            outputs = session.run(picture)
            np.testing.assert_allclose(outputs["boxes"], boxes, atol=1e-5)
            np.testing.assert_allclose(outputs["scores"], scores, atol=1e-6)
            np.testing.assert_array_equal(outputs["classes"], classes)
            np.testing.assert_array_equal(outputs["count"], count)


@pytest.mark.parametrize("name", ["tflite/ultraface_rfb_320.tflite", "onnx/version-RFB-320.onnx"])
def test_selects_boxes_decoded_by_the_model(name: str, device: DeviceInfo) -> None:
    path, limits = path_of(name), (0.7, 0.3, 50)
    arrays = [(one - np.float32(127)) / 128 for one in photographs((240, 320))]
    if path.suffix == ".onnx":
        arrays = [np.ascontiguousarray(one.transpose(0, 3, 1, 2)) for one in arrays]
    option, seen = processing.DecodedBoxes(*limits, background=True), 0
    for raw, result in run_both(path, option, arrays, device=device):
        scores, boxes = sorted((array[0] for array in raw.values()), key=lambda one: one.shape[1])
        expected = plain.best_boxes(boxes[:, [1, 0, 3, 2]], scores[:, 1:], limits, True)
        assert result["count"].tolist() == [len(expected.scores)]
        check_close(result["boxes"][0], expected.boxes)
        check_close(result["scores"][0], expected.scores)
        seen += len(expected.scores)
    assert seen > 2


def test_top_classes_have_labels(device: DeviceInfo) -> None:
    path = path_of("tflite/mobilenet_v2_1.0_224_quant.tflite")
    (picture, *_) = photographs((224, 224))
    ((raw, result),) = run_both(path, processing.TopK(3), [picture], device=device)
    (array,) = raw.values()
    order = np.argsort(-array[0].astype(int), kind="stable")[:3]
    np.testing.assert_array_equal(result["classes"][0], order)
    with fourfold.Session(path, device, cache=None, postprocess=processing.TopK(3)) as session:
        scores, classes = session.outputs
        assert len(classes.labels) == 1001
        assert scores.labels == ()
