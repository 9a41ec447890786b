"""Layers of single-shot detectors: prior boxes and detection output."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.caffe.operation import Operation, converts
from fourfold.formats.caffe.record import Record
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.concat import Concat
from fourfold.ops.detection import Detection
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.types import DType, TensorType

_VALID, _SCORE, _CLASS = 6, 5, 4  # columns of the detection op's result
_MAX_SIZES = 64  # max sizes, and max ratios, of one layer


@converts("PriorBox")
def prior_box(op: Operation) -> None:
    """a constant: boxes of several sizes and shapes around every pixel."""
    op.single()
    settings, layer, image = op.settings("prior_box_param"), op.input_type(), op.input_type(1)
    if layer.rank != 4 or image.rank != 4:
        raise ValueError(f"{layer} and {image} are not batches of images")
    boxes = _sizes(settings)
    size = (settings.integer("img_h"), settings.integer("img_w"))
    size = (settings.integer("img_size", size[0]), settings.integer("img_size", size[1]))
    size = (size[0] or image.shape[2], size[1] or image.shape[3])
    count = layer.shape[2] * layer.shape[3] * len(boxes) * 4
    type_ = TensorType(DType.F32, (1, 2, count))
    check_shape(type_.shape)
    if min(size) < 1 or not op.builder.budget.take(type_):
        raise ValueError(f"{len(boxes)} boxes for each pixel of {layer} are too many")
    rows = _boxes(settings, boxes, (layer.shape[2], layer.shape[3]), size)
    variances = settings.numbers("variance") or (0.1,)
    if len(variances) not in (1, 4):
        raise ValueError(f"it has {len(variances)} variances, expected one or four")
    spread = np.resize(np.array(variances, np.float32), count)
    op.give_constant(np.stack([rows.reshape(-1), spread])[np.newaxis])


def _sizes(settings: Record) -> list[tuple[float, float]]:
    """Return width and height of the boxes around one pixel, in image pixels."""
    if max(len(settings.numbers("min_size")), len(settings.numbers("aspect_ratio"))) > _MAX_SIZES:
        raise ValueError(f"it has more than {_MAX_SIZES} sizes or ratios")
    ratios = [1.0]
    for ratio in settings.numbers("aspect_ratio"):
        if not 0 < ratio < math.inf:
            raise ValueError(f"its ratio {ratio} is not positive and finite")
        if all(abs(ratio - other) >= 1e-6 for other in ratios):
            ratios += [ratio, 1.0 / ratio] if settings.flag("flip", True) else [ratio]
    minima, maxima = settings.numbers("min_size"), settings.numbers("max_size")
    if not minima or (maxima and len(maxima) != len(minima)):
        raise ValueError(f"it has {len(minima)} minimum and {len(maxima)} maximum sizes")
    boxes = []
    for small, large in itertools.zip_longest(minima, maxima):
        if small <= 0 or (large is not None and large <= small):
            raise ValueError(f"box sizes from {small} to {large} are not valid")
        boxes.append((small, small))
        if large is not None:
            boxes.append((math.sqrt(small * large), math.sqrt(small * large)))
        boxes += [(small * math.sqrt(r), small / math.sqrt(r)) for r in ratios[1:]]
    return boxes


def _boxes(
    settings: Record,
    sizes: list[tuple[float, float]],
    grid: tuple[int, int],
    image: tuple[int, int],
) -> np.ndarray:
    """Return left, top, right, bottom of each box as fractions of the image size."""
    step = settings.number("step")
    steps = [
        settings.number(f"step_{axis}", step) or image[i] / grid[i] for i, axis in enumerate("hw")
    ]
    offset = settings.number("offset", 0.5)
    y, x = ((np.arange(grid[i], dtype=np.float32) + offset) * steps[i] for i in (0, 1))
    half = np.array(sizes, np.float32) / 2
    centres = np.stack(np.broadcast_arrays(x[np.newaxis, :], y[:, np.newaxis]), -1)
    centres = centres[:, :, np.newaxis]
    corners = np.concatenate([centres - half, centres + half], -1)
    corners = corners / np.array([image[1], image[0]] * 2, np.float32)
    corners = corners.clip(0, 1) if settings.flag("clip") else corners
    return np.asarray(corners, np.float32)


@dataclass(frozen=True)
class _Priors:
    """Prior boxes that offsets refer to: centers and sizes, and four variances."""

    anchors: np.ndarray
    variances: tuple[float, ...]


@converts("DetectionOutput")
def detection_output(op: Operation) -> None:
    """detection, with rows of image, label, score and corners; empty rows have image -1."""
    op.single()
    settings = op.settings("detection_output_param")
    priors, classes = _priors(op, settings), settings.integer("num_classes")
    count = len(priors.anchors)
    background = settings.integer("background_label_id")
    attributes = _attributes(settings, priors, classes - (background == 0))
    boxes = Reshape((1, count, 4))
    offsets = op.add("reshape", op.input(), attributes=boxes, part="offsets")
    shape = Reshape((1, count, classes))
    scores = op.add("reshape", op.input(1), attributes=shape, part="scores")
    anchors = op.add_constant(priors.anchors, "anchors")
    # The op expects y before x but treats both alike, so they can be swapped.
    rows = op.add("detection", offsets, scores, anchors, attributes=attributes, part="rows")
    one = op.scalar(1.0, rows, "one")
    valid = _column(op, rows, _VALID)
    image = op.add("sub", valid, one, part="image")
    label = _column(op, rows, _CLASS)
    if background == 0:
        label = op.add("mul", op.add("add", label, one, part="label"), valid, part="known")
    score = _column(op, rows, _SCORE)
    corners = Slice((0, 0), (attributes.rows, 4), (1, 1))
    box = op.add("slice", rows, attributes=corners, part="corners")
    table = op.add("concat", image, label, score, box, attributes=Concat(1), part="table")
    op.give("reshape", table, attributes=Reshape((1, 1, attributes.rows, 7)))


def _column(op: Operation, rows: str, column: int) -> str:
    count = op.type_of(rows).shape[0]
    one = Slice((0, column), (count, 1), (1, 1))
    return op.add("slice", rows, attributes=one, part=f"column{column}")


def _priors(op: Operation, settings: Record) -> _Priors:
    table = op.known(op.input(2))
    if table is None:
        raise Unconvertible("its prior boxes are computed at run time")
    if table.ndim != 3 or table.shape[:2] != (1, 2) or not table.size or table.shape[2] % 4:
        raise ValueError(f"its prior boxes are {list(table.shape)}, not [1,2,4 * count]")
    left, top, right, bottom = table[0, 0].reshape(-1, 4).T
    sizes = (right - left, bottom - top)
    anchors = np.stack([(left + right) / 2, (top + bottom) / 2, *sizes], 1)
    variances = table[0, 1].reshape(-1, 4)
    if settings.flag("variance_encoded_in_target"):
        return _Priors(anchors, (1.0,) * 4)
    if (variances != variances[0]).any() or not variances[0].all():
        raise Unconvertible("its boxes have different variances")
    return _Priors(anchors, tuple(float(number) for number in variances[0]))


def _attributes(settings: Record, priors: _Priors, classes: int) -> Detection:
    suppression = settings.record("nms_param")
    if settings.text("code_type", "CORNER") != "CENTER_SIZE":
        raise Unconvertible("only boxes coded as CENTER_SIZE are supported")
    if not settings.flag("share_location", True):
        raise Unconvertible("separate boxes per class are not supported")
    if settings.integer("background_label_id") not in (0, -1):
        raise Unconvertible("its background is not the first class")
    if suppression.number("eta", 1.0) != 1.0:
        raise Unconvertible("an adaptive overlap limit (eta) is not supported")
    count = len(priors.anchors)
    kept, best = settings.integer("keep_top_k", -1), suppression.integer("top_k", -1)
    y, x, height, width = (1.0 / variance for variance in priors.variances)
    return Detection(
        most=min(kept if kept > 0 else count, count * max(classes, 1)),
        classes=classes,
        score=max(settings.number("confidence_threshold", 0.0), 0.0),
        overlap=suppression.number("nms_threshold", 0.3),
        scales=(y, x, height, width),
        boxes_per_class=min(best if best > 0 else count, count),
        by_class=True,
    )
