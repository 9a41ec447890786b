"""Nodes for detectors with separate outputs for boxes and scores: SSD, and decoded boxes."""

from __future__ import annotations

import numpy as np

from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.ops.box_corners import BoxCorners
from fourfold.postprocess.grown_graph import GrownGraph
from fourfold.postprocess.outputs import DetectorOutputs
from fourfold.postprocess.pick import Boxes, Results, best_class, pick
from fourfold.postprocess.picture import model_picture_size
from fourfold.processing import DecodedBoxes, SsdAnchors, SsdBoxes
from fourfold.processing.anchors import Size
from fourfold.processing.boxes import ORDERS
from fourfold.types import Shape

Scales = tuple[float, float, float, float]


def decoded_boxes(
    grown: GrownGraph, model: Model, option: DecodedBoxes, outputs: DetectorOutputs
) -> Results:
    boxes, scores = _ends(grown, option, outputs)
    form = "corners" if option.order in ("tlbr", "ltrb") else "linear"
    scales = (
        (1.0,) * 4 if option.normalized else size_scales(model_picture_size(model, option.size))
    )
    attributes = BoxCorners(form, ORDERS[option.order], scales)
    corners = grown.add("box_corners", boxes, attributes=attributes, part="corners")
    return _pick(grown, option, corners, scores)


def ssd_boxes(
    grown: GrownGraph, model: Model, option: SsdBoxes, outputs: DetectorOutputs
) -> Results:
    boxes, scores = _ends(grown, option, outputs)
    if isinstance(option.anchors, SsdAnchors):
        rows = option.anchors.rows(model_picture_size(model, option.size))
    else:
        rows = np.array(option.anchors, np.float32)
    require_anchors(rows, grown.shape(boxes)[1], "pass anchors=, or processing.SsdAnchors(maps=…)")
    anchors = grown.constant("anchors", rows)
    y, x, height, width = option.scales
    attributes = BoxCorners("exponential", scales=(y, x, height, width))
    corners = grown.add("box_corners", boxes, anchors, attributes=attributes, part="corners")
    scores = grown.add("logistic", scores) if option.logistic else scores
    return _pick(grown, option, corners, scores)


def _ends(
    grown: GrownGraph, option: DecodedBoxes | SsdBoxes, outputs: DetectorOutputs
) -> tuple[str, str]:
    """Return boxes [batch,N,4] and scores [batch,N,classes]."""
    boxes = outputs.find("boxes", option.boxes, "boxes [batch,N,4]", _are_boxes)
    batch, count, *_ = grown.shape(boxes)

    def are_scores(shape: Shape) -> bool:
        return len(shape) == 3 and shape[:2] == (batch, count)

    scores = outputs.find("scores", option.scores, f"scores [{batch},{count},C]", are_scores)
    if option.background and grown.shape(scores)[2] < 2:
        what = "the scores have only the background class"
        why = f"they are {grown.type(scores)}, and background is True"
        raise InputError(what, why, "pass background=False")
    return grown.reshape(boxes, batch, count, 4, part="raw_boxes"), scores


def _are_boxes(shape: Shape) -> bool:
    """Return True for [batch,N,4], or TensorFlow's [batch,N,1,4]."""
    return shape[-1:] == (4,) and (len(shape) == 3 or (len(shape) == 4 and shape[2] == 1))


def _pick(grown: GrownGraph, option: DecodedBoxes | SsdBoxes, corners: str, scores: str) -> Results:
    classes, best = best_class(grown, grown.cut(scores, 2, int(option.background)))
    return pick(grown, option, Boxes(corners, best, classes))


def size_scales(size: Size) -> Scales:
    """Return the divisors of pixel coordinates: y, x, height, width."""
    return float(size[0]), float(size[1]), float(size[0]), float(size[1])


def require_anchors(rows: np.ndarray, count: int, fix: str) -> None:
    if len(rows) != count:
        what = f"{len(rows)} anchors do not match the model's {count} boxes"
        raise InputError(what, "each box is relative to its own anchor", fix)
