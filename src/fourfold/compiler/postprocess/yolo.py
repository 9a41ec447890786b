"""Nodes for YOLO: decoded boxes, and raw heads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fourfold.compiler.postprocess.boxes import (
    Boxes,
    Results,
    best_class,
    model_picture_size,
    pick,
    require_anchors,
    size_scales,
)
from fourfold.compiler.postprocess.grown_graph import GrownGraph
from fourfold.compiler.postprocess.outputs import DetectorOutputs
from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.ops.box_corners import BoxCorners
from fourfold.processing import YoloBoxes, YoloHeads
from fourfold.processing.anchors import Size, corner_anchors
from fourfold.types import Shape

_XYWH = (1, 0, 3, 2)


def yolo_boxes(
    grown: GrownGraph, model: Model, option: YoloBoxes, outputs: DetectorOutputs
) -> Results:
    value = outputs.find(
        "boxes", None, "one output [batch,N,5 + C] or [batch,4 + C,N]", _could_be_boxes
    )
    axis = _columns_axis(grown.shape(value))
    objectness = axis == 2 if option.objectness is None else option.objectness
    first = 5 if objectness else 4
    columns = grown.shape(value)[axis]
    classes = columns - first if option.classes is None else option.classes
    if not 1 <= classes <= columns - first:
        what = f"{columns} columns do not hold {classes} classes"
        why = f"the first {first} are the box{' and its objectness' if objectness else ''}"
        raise InputError(what, why, "pass classes= and objectness= as the model was trained")

    def cut(start: int, stop: int) -> str:
        return grown.cut(value, axis, start, stop)

    def as_rows(part: str) -> str:
        return grown.transpose(part, 0, 2, 1) if axis == 1 else part

    corners = _decoded(grown, model, option, as_rows(cut(0, 4)))
    kinds, scores = best_class(grown, cut(first, first + classes), axis)
    if objectness:
        scores = grown.add("mul", scores, as_rows(cut(4, 5)), part="sure")
    end = first + classes
    others = {"extras": as_rows(cut(end, columns))} if end < columns else {}
    return pick(grown, option, Boxes(corners, scores, kinds, others))


def _decoded(grown: GrownGraph, model: Model, option: YoloBoxes, boxes: str) -> str:
    """Return the corners of boxes [batch,N,4]: center and size, or offsets from cells."""
    if option.strides:
        rows = corner_anchors(model_picture_size(model, option.size), option.strides)
        fix = f"pass the strides= of the model's grids instead of {option.strides}"
        require_anchors(rows, grown.shape(boxes)[1], fix)
        anchors, offsets = grown.constant("cells", rows), BoxCorners("exponential", _XYWH)
        return grown.add("box_corners", boxes, anchors, attributes=offsets, part="corners")
    scales = (
        (1.0,) * 4 if option.normalized else size_scales(model_picture_size(model, option.size))
    )
    attributes = BoxCorners("linear", _XYWH, scales)
    return grown.add("box_corners", boxes, attributes=attributes, part="corners")


def _could_be_boxes(shape: Shape) -> bool:
    return len(shape) == 3 and shape[1] != shape[2] and min(shape[1:]) >= 5


def _columns_axis(shape: Shape) -> int:
    """Return the axis of the columns, assuming more boxes than columns."""
    return 2 if shape[1] > shape[2] else 1


class _Head(NamedTuple):
    """A head as [batch, height, width, anchors, 5 + classes]."""

    value: str
    grid: Size


def yolo_heads(
    grown: GrownGraph, model: Model, option: YoloHeads, outputs: DetectorOutputs
) -> Results:
    size = model_picture_size(model, option.size)
    in_cell = len(option.anchors[0]) // 2
    names = outputs.all(lambda shape: _grid(shape, in_cell, size) is not None)
    if len(names) != len(option.anchors):
        what = f"{len(names)} outputs of the model could be heads"
        why = f"there are anchors for {len(option.anchors)} heads of {in_cell} each"
        fix = "pass the anchors= of the model's training, and size= if its input is no picture"
        raise InputError(what, why, fix)
    heads = [_as_rows(grown, outputs.take(name), in_cell, size) for name in names]
    heads.sort(key=lambda head: -head.grid[0])
    pairs = list(zip(heads, option.anchors, strict=True))
    corners = grown.join([_corners(grown, option, *pair, size) for pair in pairs], 1)
    flat = grown.join([_flat(grown, head.value) for head in heads], 1)
    sure = grown.add("logistic", grown.cut(flat, 2, 4, 5), part="sure")
    kinds, scores = best_class(grown, grown.cut(flat, 2, 5))
    # The sigmoid is monotonic, so it is applied to the best logit of each box only.
    scores = grown.add("mul", grown.add("logistic", scores, part="score"), sure, part="scores")
    return pick(grown, option, Boxes(corners, scores, kinds))


def _grid(shape: Shape, in_cell: int, size: Size) -> tuple[Size, tuple[int, ...]] | None:
    """Return height and width of a head and its axis order, or None if the shape is no head.

    The order is batch, height, width, anchors, numbers. A head with four axes has anchors and
    numbers on one axis, which comes last.
    """
    orders = {4: ((0, 1, 2, 3), (0, 2, 3, 1)), 5: ((0, 1, 2, 3, 4), (0, 2, 3, 1, 4))}
    for order in orders.get(len(shape), ()):
        _, tall, wide, *sizes = (shape[axis] for axis in order)
        columns = sizes[0] // in_cell if len(sizes) == 1 else sizes[1]
        divides = sizes[0] % in_cell == 0 if len(sizes) == 1 else sizes[0] == in_cell
        on_picture = tall * size[1] == wide * size[0] and tall > 0 and size[0] % tall == 0
        if divides and columns > 5 and on_picture:
            return (tall, wide), order
    return None


def _as_rows(grown: GrownGraph, value: str, in_cell: int, size: Size) -> _Head:
    grid_order = _grid(grown.shape(value), in_cell, size)
    assert grid_order is not None, "only outputs that have a grid are taken"
    grid, order = grid_order
    value = grown.transpose(value, *order)
    batch, columns = grown.shape(value)[0], grown.type(value).elements
    columns //= batch * grid[0] * grid[1] * in_cell
    return _Head(grown.reshape(value, batch, *grid, in_cell, columns, part="head"), grid)


def _flat(grown: GrownGraph, value: str) -> str:
    batch, tall, wide, anchors, columns = grown.shape(value)
    return grown.reshape(value, batch, tall * wide * anchors, columns, part="flat")


def _corners(
    grown: GrownGraph, option: YoloHeads, head: _Head, row: tuple[float, ...], size: Size
) -> str:
    tall, wide = head.grid
    square = option.form == "square"
    # v5 centers reach half a cell beyond their own, and sizes up to four times the anchor.
    reach, start, scale = (2.0, 0.5, 0.25) if square else (1.0, 0.0, 1.0)
    pairs = np.array(row, np.float32).reshape(-1, 2)[:, ::-1] / np.array(size, np.float32)
    y, x = np.mgrid[:tall, :wide].astype(np.float32) - np.float32(start)
    cells = np.stack([y / np.float32(tall), x / np.float32(wide)], -1).reshape(-1, 1, 2)
    shape = (tall * wide, len(pairs), 2)
    both = [np.broadcast_to(cells, shape), np.broadcast_to(pairs, shape)]
    anchors = grown.constant("anchors", np.concatenate(both, -1).reshape(-1, 4))
    scales = (tall / reach, wide / reach, scale, scale)
    attributes = BoxCorners(f"grid {option.form}", _XYWH, scales)
    flat = _flat(grown, head.value)
    return grown.add("box_corners", flat, anchors, attributes=attributes, part="corners")
