"""Real models recognize the content of photographs, at the right position."""

from __future__ import annotations

from pathlib import Path

import pytest

import fourfold
from fourfold.device import DeviceInfo
from fourfold.vision import Answer, ask, read_labels

pytest.importorskip("PIL.Image", reason="Pillow reads photographs")
SHARED = Path(__file__).resolve().parents[3] / "shared"


def shared_file(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{path.name} is not available")
    return path


def run_model(model: str, photograph: str, device: DeviceInfo, labels: str = "") -> Answer:
    names = read_labels(shared_file(f"inputs/{labels}")) if labels else ()
    with fourfold.Session(shared_file(f"models/{model}"), device) as session:
        return ask(session, shared_file(f"inputs/{photograph}"), labels=names)


CLASSES = {
    "tflite/mobilenet_v2_1.0_224_quant.tflite": ("grace_hopper.bmp", "", "military uniform"),
    "tflite/mobilenet_v1_025_224_float.tflite": ("cat.bmp", "imagenet_labels.txt", "Egyptian cat"),
}


@pytest.mark.parametrize("model", CLASSES)
def test_classifies_photographs(model: str, device: DeviceInfo) -> None:
    photograph, labels, best = CLASSES[model]
    assert run_model(model, photograph, device, labels).classes[0].label == best


def test_detects_cats_and_dogs(device: DeviceInfo) -> None:
    result = run_model("tflite/ssd_mobilenet_v1_uint8.tflite", "cats_and_dogs.jpg", device)
    assert result.size == (600, 1200)
    assert {box.label for box in result.boxes} == {"cat", "dog"}
    cats = [box for box in result.boxes if box.label == "cat"]
    top, left, bottom, right = cats[0].pixels((600, 1200))
    assert (left, top, right, bottom) == pytest.approx((51, 398, 444, 594), abs=12)
    assert cats[0].score == pytest.approx(0.66, abs=0.05)


FACES = (
    "tflite/face_detection_short_range.tflite",
    "tflite/ultraface_rfb_320.tflite",
    "onnx/version-RFB-320.onnx",
)


@pytest.mark.parametrize("model", FACES)
def test_face_detectors_agree(model: str, device: DeviceInfo) -> None:
    (box,) = run_model(model, "grace_hopper.bmp", device).boxes
    top, left, bottom, right = box.pixels((600, 512))
    assert box.label == "face"
    assert (left, top, right, bottom) == pytest.approx((173, 150, 360, 335), abs=40)


def test_detects_a_person_and_a_cat(device: DeviceInfo) -> None:
    for photograph, number in (("squat.bmp", 0), ("cat.bmp", 15)):  # COCO class numbers
        (box,) = run_model("onnx/FastestDet.onnx", photograph, device).boxes
        assert (box.number, box.score > 0.7) == (number, True)


POSES = ("movenet_lightning_int8", "posenet_mobilenet_075_uint8", "posenet_mobilenet_385_float")


@pytest.mark.parametrize("model", POSES)
def test_pose_models_agree(model: str, device: DeviceInfo) -> None:
    (body,) = run_model(f"tflite/{model}.tflite", "squat.bmp", device).key_points
    points = {one.name: one for one in body.points}
    knee, ankle = points["right knee"], points["right ankle"]
    assert (knee.x, knee.y) == pytest.approx((0.42, 0.68), abs=0.04)
    assert (ankle.x, ankle.y) == pytest.approx((0.33, 0.90), abs=0.05)


def test_segments_photographs(device: DeviceInfo) -> None:
    rider = run_model(
        "tflite/deeplab_v3_257_float.tflite", "segmentation_input_rotation0.jpg", device
    )
    shares = {one.label: one.share for one in rider.masks[0].shares}
    assert shares == pytest.approx({"background": 0.379, "person": 0.335, "horse": 0.286}, abs=0.01)
    bird = run_model(
        "tflite/deeplab_v3_dm05_513_uint8.tflite",
        "bird_segmentation.bmp",
        device,
        "pascal_voc_segmentation_labels.txt",
    )
    assert {one.label for one in bird.masks[0].shares if one.share > 0.1} == {"background", "bird"}


def test_segments_a_selfie(device: DeviceInfo) -> None:
    result = run_model("tflite/selfie_segmentation.tflite", "grace_hopper.bmp", device)
    shares = {one.name: one.share for one in result.masks[0].shares}
    assert shares["person"] == pytest.approx(0.58, abs=0.03)


def test_reports_unknown_outputs(device: DeviceInfo) -> None:
    result = run_model("tflite/idDetector.tflite", "cat.bmp", device)
    assert not result.known
    assert result.unknown == ("Identity",)
