"""Nodes for detectors with separate outputs for boxes and scores (SSD, MediaPipe, decoded boxes),
and for non-maximum suppression, which also selects the data that belongs to boxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.compiler.postprocess.grown_graph import GrownGraph
from fourfold.compiler.postprocess.outputs import DetectorOutputs
from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.rules import Reduce
from fourfold.ops.blend_rows import BlendRows
from fourfold.ops.box_corners import BoxCorners
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.non_max_suppression import NonMaxSuppression
from fourfold.processing import DecodedBoxes, MediaPipeBoxes, SsdAnchors, SsdBoxes
from fourfold.processing.anchors import Size, cell_anchors
from fourfold.processing.boxes import FAMILIES, ORDERS, Picking
from fourfold.types import Shape

Results = dict[str, str]


@dataclass(frozen=True)
class Boxes:
    """Values of all boxes: corners [batch,N,4], scores and classes [batch,N,1], others
    [batch,N,columns].
    """

    corners: str
    scores: str
    classes: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)


def best_class(grown: GrownGraph, scores: str, axis: int = 2) -> tuple[str, str]:
    """Return the best class of each box and its score, both [batch,N,1]."""
    batch, *sizes = grown.shape(scores)
    count = sizes[2 - axis]
    if sizes[axis - 1] == 1:  # a single class
        column = grown.reshape(scores, batch, count, 1)
        attributes = ArgMax(2, keep_dims=True)
        return grown.add("arg_max", column, attributes=attributes, part="class"), column
    kinds = grown.add("arg_max", scores, attributes=ArgMax(axis, keep_dims=True), part="class")
    if axis == 1:  # lets a final transpose of the model move after both nodes
        best = grown.add("reduce_max", scores, attributes=Reduce((1,), True), part="score")
    else:
        gather = GatherElements(axis)
        best = grown.add("gather_elements", scores, kinds, attributes=gather, part="score")
    return grown.reshape(kinds, batch, count, 1), grown.reshape(best, batch, count, 1)


def pick(grown: GrownGraph, option: Picking, boxes: Boxes, blend: bool = False) -> Results:
    """Append non-maximum suppression and return the selected boxes by output name."""
    batch, most = grown.shape(boxes.corners)[0], option.most
    compared = boxes.classes if option.by_class else None
    indices, count, owners = grown.add_all(
        "non_max_suppression",
        boxes.corners,
        boxes.scores,
        *(() if compared is None else (compared,)),
        attributes=NonMaxSuppression(most, float(option.score), float(option.overlap)),
        parts=("indices", "counts", "owners"),
    )

    def rows(value: str, part: str) -> str:
        return grown.add("gather_rows", value, indices, part=part)

    def selected(value: str, part: str) -> str:
        if not blend:
            return rows(value, part)
        attributes = BlendRows(most)
        return grown.add(
            "blend_rows", value, boxes.scores, owners, attributes=attributes, part=part
        )

    results = {"boxes": selected(boxes.corners, "boxes")}
    results["scores"] = grown.reshape(rows(boxes.scores, "best"), batch, most, part="scores")
    if boxes.classes is not None:
        kinds = rows(boxes.classes, "kinds")
        results["classes"] = grown.reshape(kinds, batch, most, part="classes")
    results |= {name: selected(value, name) for name, value in boxes.others.items()}
    return {**results, "count": grown.reshape(count, batch, part="count")}


_XYWH = (1, 0, 3, 2)


def mediapipe_boxes(
    grown: GrownGraph, model: Model, option: MediaPipeBoxes, outputs: DetectorOutputs
) -> Results:
    size, family = model_picture_size(model, option.size), FAMILIES[option.family]
    raw, logits = _raw_outputs(grown, option, outputs)
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
    boxes = replace(boxes, others={"keypoints": _key_points(grown, raw, rows, size)})
    results = pick(grown, option, boxes, option.blend)
    points = grown.reshape(
        results["keypoints"], batch, option.most, (columns - 4) // 2, 2, part="points"
    )
    return {**results, "keypoints": points}


def _raw_outputs(
    grown: GrownGraph, option: MediaPipeBoxes, outputs: DetectorOutputs
) -> tuple[str, str]:
    """Return numbers [batch,N,4 + 2 * key points] and logits [batch,N,1]."""

    def are_boxes(shape: Shape) -> bool:
        return len(shape) == 3 and shape[2] >= 4 and shape[2] % 2 == 0

    raw = outputs.find("boxes", option.boxes, "boxes [batch,N,4 + 2 * points]", are_boxes)
    column = (*grown.shape(raw)[:2], 1)
    title = f"scores {list(column)}"
    return raw, outputs.find("scores", option.scores, title, lambda shape: shape == column)


def _key_points(grown: GrownGraph, raw: str, anchors: np.ndarray, size: Size) -> str:
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


_CHANNELS = (1, 3, 4)


def model_picture_size(model: Model, size: Size | None) -> Size:
    """Return height and width as the caller passed them, or of the only input that is a picture."""
    if size is not None:
        return size
    shapes = {name: model.main.types[name].shape for name in model.main.arguments}
    sizes = [pair for shape in shapes.values() if (pair := _size(shape)) is not None]
    if len(sizes) != 1:
        what = "the size of the model's input picture is unknown"
        why = f"{len(sizes)} of its inputs could be pictures: {shapes}"
        raise InputError(what, why, "pass size=(height, width) to the post-processing option")
    return sizes[0]


def _size(shape: Shape) -> Size | None:
    if len(shape) != 4:
        return None
    if shape[3] in _CHANNELS:
        return shape[1], shape[2]
    return (shape[2], shape[3]) if shape[1] in _CHANNELS else None


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
