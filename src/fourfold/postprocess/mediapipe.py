"""Nodes for MediaPipe detectors: boxes and key points relative to cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.formats import Model
from fourfold.ops.box_corners import BoxCorners
from fourfold.postprocess.boxes import require_anchors, size_scales
from fourfold.postprocess.grown_graph import GrownGraph
from fourfold.postprocess.outputs import DetectorOutputs
from fourfold.postprocess.pick import Boxes, Results, pick
from fourfold.postprocess.picture import model_picture_size
from fourfold.processing import MediaPipeBoxes
from fourfold.processing.anchors import Size, cell_anchors
from fourfold.processing.boxes import FAMILIES
from fourfold.types import Shape

_XYWH = (1, 0, 3, 2)


def mediapipe_boxes(
    grown: GrownGraph, model: Model, option: MediaPipeBoxes, outputs: DetectorOutputs
) -> Results:
    size, family = model_picture_size(model, option.size), FAMILIES[option.family]
    raw, logits = _ends(grown, option, outputs)
    rows = cell_anchors(size, family.strides, family.in_cell)
    fix = f"use another family than {option.family!r}: {', '.join(FAMILIES)}"
    require_anchors(rows, grown.shape(raw)[1], fix)
    attributes = BoxCorners("linear", _XYWH, size_scales(size))
    anchors = grown.constant("anchors", rows)
    corners = grown.add("box_corners", raw, anchors, attributes=attributes, part="corners")
    boxes = Boxes(corners, grown.add("logistic", logits, part="score"))
    batch, _, columns = grown.shape(raw)
    if columns == 4:
        return pick(grown, option, boxes, option.blend)
    boxes = replace(boxes, others={"keypoints": _points(grown, raw, rows, size)})
    results = pick(grown, option, boxes, option.blend)
    points = grown.reshape(
        results["keypoints"], batch, option.most, (columns - 4) // 2, 2, part="points"
    )
    return {**results, "keypoints": points}


def _ends(grown: GrownGraph, option: MediaPipeBoxes, outputs: DetectorOutputs) -> tuple[str, str]:
    """Return numbers [batch,N,4 + 2 * key points] and logits [batch,N,1]."""

    def are_boxes(shape: Shape) -> bool:
        return len(shape) == 3 and shape[2] >= 4 and shape[2] % 2 == 0

    raw = outputs.find("boxes", option.boxes, "boxes [batch,N,4 + 2 * points]", are_boxes)
    column = (*grown.shape(raw)[:2], 1)
    title = f"scores {list(column)}"
    return raw, outputs.find("scores", option.scores, title, lambda shape: shape == column)


def _points(grown: GrownGraph, raw: str, anchors: np.ndarray, size: Size) -> str:
    """Return all key points as y and x fractions, from x and y in pixels relative to cell
    centers.
    """
    numbers = grown.cut(raw, 2, 4)
    batch, count, columns = grown.shape(numbers)
    pairs = grown.reshape(numbers, batch, count, columns // 2, 2, part="pairs")
    # Swap x and y.
    columns_yx = [grown.cut(pairs, 3, column, column + 1) for column in (1, 0)]
    turned = grown.join(columns_yx, 3)
    scale = grown.constant("scale", 1 / np.array(size, np.float32))
    middles = grown.constant("middles", anchors[None, :, None, :2].copy())
    points = grown.add("add", grown.add("mul", turned, scale), middles, part="all_points")
    return grown.reshape(points, batch, count, columns, part="point_rows")
