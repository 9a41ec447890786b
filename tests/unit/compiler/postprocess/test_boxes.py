"""Boxes of small detectors equal those that NumPy computes from the model's outputs."""

from __future__ import annotations

import detector_networks as networks
import numpy as np
import plain_detectors as plain
import pytest
from runtimes import needs_litert

import fourfold
from fourfold import processing
from fourfold.device import DeviceInfo
from fourfold.errors import InputError

SIZE = np.array((networks.HEIGHT, networks.WIDTH), np.float32)


def image(batch: int = 1) -> np.ndarray:
    shape = (batch, networks.HEIGHT, networks.WIDTH, 3)
    return np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)


def run_model(model: bytes, postprocess: object = None, **options: object) -> dict[str, np.ndarray]:
    own = {"device": "cpu", "cache": None, "postprocess": postprocess, **options}
    with fourfold.Session(model, **own) as session:
        return session.run(image(session.inputs[0].shape[0]))


def check_detections(
    found: dict[str, np.ndarray], wanted: plain.Detections, picture: int = 0
) -> None:
    count = int(found["count"][picture])
    assert count == len(wanted.scores) > 1
    np.testing.assert_array_equal(found["classes"][picture, :count], wanted.classes)
    np.testing.assert_allclose(found["scores"][picture, :count], wanted.scores, rtol=1e-4)
    np.testing.assert_allclose(found["boxes"][picture, :count], wanted.boxes, atol=1e-4)
    for name in ("classes", "scores", "boxes"):
        assert not found[name][picture, count:].any()


def swap_xy(boxes: np.ndarray) -> np.ndarray:
    """Return y, x, height, width from x, y, width, height."""
    return boxes[:, [1, 0, 3, 2]]


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_yolo_with_objectness(by_class: bool, batch: int, device: DeviceInfo) -> None:
    model, limits = networks.yolo_v5(batch=batch), (0.2, 0.4, 9)
    option = processing.YoloBoxes(*limits, by_class, normalized=True)
    raw, result = run_model(model)["predictions"], run_model(model, option, device=device)
    assert result["boxes"].shape == (batch, 9, 4)
    for picture, rows in enumerate(raw):
        table = rows[:, 5:] * rows[:, 4:5]
        boxes = plain.corners(swap_xy(rows[:, :4]))
        check_detections(result, plain.best_boxes(boxes, table, limits, by_class), picture)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_yolo_with_columns_first(precision: str, device: DeviceInfo) -> None:
    model, limits = networks.yolo_v8(), (0.5, 0.3, 20)
    option = {"output0": processing.YoloBoxes(*limits)}
    raw = run_model(model)["output0"][0].T
    result = run_model(model, option, device=device, precision=precision)
    boxes = plain.corners(swap_xy(raw[:, :4]) / np.concatenate([SIZE, SIZE]))
    check_detections(result, plain.best_boxes(boxes, raw[:, 4:], limits, True))


def test_returns_extra_columns(device: DeviceInfo) -> None:
    model, limits = networks.yolo_v8(extras=5), (0.5, 0.3, 20)
    option = processing.YoloBoxes(*limits, classes=3, normalized=True)
    raw, result = run_model(model)["output0"][0].T, run_model(model, option, device=device)
    expected = plain.best_boxes(plain.corners(swap_xy(raw[:, :4])), raw[:, 4:7], limits, True)
    check_detections(result, expected)
    count = len(expected.places)
    np.testing.assert_allclose(result["extras"][0, :count], raw[expected.places, 7:], rtol=1e-5)
    assert not result["extras"][0, count:].any()


# width and height of anchors for cells of 8 and 16 pixels
ANCHORS = ((4, 6, 10, 7), (14, 12, 20, 24))


def decoded_heads(raw: dict[str, np.ndarray], form: str) -> tuple[np.ndarray, np.ndarray]:
    """Return corners and scores of both heads, the finer first, following the papers."""
    heads = sorted((one[0] for one in raw.values()), key=lambda head: -head.shape[0])
    boxes, scores = [], []
    for head, row in zip(heads, ANCHORS, strict=True):
        tall, wide, _ = head.shape
        numbers, stride = head.reshape(tall, wide, 2, -1), networks.HEIGHT / tall
        for y, x, anchor in np.ndindex(tall, wide, 2):
            tx, ty, tw, th, sure, *classes = numbers[y, x, anchor]
            w, h = row[2 * anchor], row[2 * anchor + 1]
            sx, sy = (float(plain.sigmoid(one)) for one in (tx, ty))
            if form == "square":
                centre = ((2 * sy - 0.5 + y) * stride, (2 * sx - 0.5 + x) * stride)
                size = (4 * plain.sigmoid(th) ** 2 * h, 4 * plain.sigmoid(tw) ** 2 * w)
            else:
                centre = ((sy + y) * stride, (sx + x) * stride)
                size = (np.exp(th) * h, np.exp(tw) * w)
            boxes.append((*(np.array(centre) / SIZE), *(np.array(size) / SIZE)))
            scores.append(plain.sigmoid(sure) * plain.sigmoid(np.array(classes)))
    return plain.corners(np.array(boxes)), np.array(scores)


@pytest.mark.parametrize("planes", [False, True])
@pytest.mark.parametrize("form", ["exponential", "square"])
def test_decodes_yolo_heads(form: str, planes: bool, device: DeviceInfo) -> None:
    limits = (0.3, 0.45, 15)
    option = processing.YoloHeads(*limits, anchors=ANCHORS, form=form)
    boxes, scores = decoded_heads(run_model(networks.yolo_heads()), form)
    result = run_model(networks.yolo_heads(planes=planes), option, device=device)
    check_detections(result, plain.best_boxes(boxes, scores, limits, True))


@pytest.mark.parametrize("order", ["tlbr", "ltrb", "yxhw", "xywh"])
def test_selects_boxes_decoded_by_the_model(order: str, device: DeviceInfo) -> None:
    model, limits = networks.boxes_and_scores(), (0.6, 0.2, 30)
    option = processing.DecodedBoxes(*limits, order=order)
    raw, result = run_model(model), run_model(model, option, device=device)
    rows = raw["boxes"][0] if order[0] in "ty" else swap_xy(raw["boxes"][0])
    boxes = rows if order in ("tlbr", "ltrb") else plain.corners(rows)
    check_detections(result, plain.best_boxes(boxes, raw["scores"][0], limits, True))
    np.testing.assert_allclose(result["embedding"], raw["embedding"], rtol=1e-4, atol=1e-5)


def test_ignores_the_background_class(device: DeviceInfo) -> None:
    model, limits = networks.boxes_and_scores(), (0.6, 0.2, 30)
    option = processing.DecodedBoxes(*limits, order="tlbr", background=True)
    raw, result = run_model(model), run_model(model, option, device=device)
    check_detections(
        result, plain.best_boxes(raw["boxes"][0], raw["scores"][0][:, 1:], limits, True)
    )


def test_uses_given_anchors(device: DeviceInfo) -> None:
    model, limits = networks.boxes_and_scores(), (0.6, 0.3, 30)
    anchors = np.random.default_rng(5).uniform(0.1, 0.9, (96, 4)).astype(np.float32)
    option = processing.SsdBoxes(*limits, anchors=anchors, background=False)
    raw, result = run_model(model), run_model(model, option, device=device)
    boxes = plain.ssd_corners(raw["boxes"][0], anchors)
    check_detections(result, plain.best_boxes(boxes, raw["scores"][0], limits, False))


def test_returns_zeros_without_detections(device: DeviceInfo) -> None:
    result = run_model(networks.yolo_v8(), processing.YoloBoxes(2.0), device=device)
    assert result["count"].tolist() == [0]
    assert not any(array.any() for array in result.values())


@needs_litert
def test_postprocesses_outputs_of_a_cpu_engine(device: DeviceInfo) -> None:
    """All inputs of the postprocessing may come from a CPU engine."""
    model, option = networks.yolo_v5(), processing.YoloBoxes(0.2, 0.4, 9, normalized=True)
    expected = run_model(model, option, device=device)
    with fourfold.Session(model, "cpu", cache=None, postprocess=option) as session:
        assert [part.target for part in session.placement.parts] == ["litert", "numpy"]
        outputs = session.run(image())
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-5)


def rejection(model: bytes, option: object) -> InputError:
    with pytest.raises(InputError) as caught:
        run_model(model, option)
    return caught.value


def test_rejects_outputs_that_cannot_be_boxes() -> None:
    error = rejection(networks.boxes_and_scores(), processing.YoloBoxes())
    assert "no output of the model could be the boxes" in error.what
    assert error.fix.startswith("pass a dict by name: postprocess={'boxes': YoloBoxes(...)}")
    error = rejection(networks.yolo_v5(), processing.SsdBoxes())
    assert "no output of the model could be the boxes" in error.what
    assert "predictions: f32[1,192,8]" in error.why
    error = rejection(networks.boxes_and_scores(), processing.SsdBoxes(boxes="box"))
    assert (error.what, error.fix) == ("the model has no output 'box'", "did you mean 'boxes'?")
    error = rejection(networks.boxes_and_scores(), processing.DecodedBoxes(boxes="embedding"))
    assert error.what == "output 'embedding' holds no boxes"


def test_rejects_mismatched_anchors() -> None:
    error = rejection(networks.boxes_and_scores(), processing.SsdBoxes())
    assert error.what == "54 anchors do not match the model's 96 boxes"
    error = rejection(networks.yolo_heads(), processing.YoloHeads(anchors=ANCHORS[:1]))
    assert error.what == "2 outputs of the model could be heads"


def test_rejects_mismatched_classes() -> None:
    error = rejection(networks.yolo_v8(), processing.YoloBoxes(classes=4))
    assert error.what == "7 columns do not hold 4 classes"
    model = networks.boxes_and_scores(classes=1)
    error = rejection(model, processing.DecodedBoxes(background=True))
    assert error.what == "the scores have only the background class"
