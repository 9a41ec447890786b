"""Raw heads of YOLO v3, v3-tiny and v5."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fourfold.support.lazy import lazy_import
from fourfold.types import Shape
from fourfold.vision.boxes import boxes_from_arrays
from fourfold.vision.class_names import COCO
from fourfold.vision.families.yolo import IN_CELL, YOLO_SCALING
from fourfold.vision.families.yolo_columns import BOX
from fourfold.vision.found import Found
from fourfold.vision.meaning import BOXES, SHAPES, Described, Meaning, Reading
from fourfold.vision.shapes import model_size

if TYPE_CHECKING:
    from fourfold import processing
    from fourfold.processing import YoloHeads
    from fourfold.vision import picking
else:
    picking = lazy_import("fourfold.vision.picking")
    processing = lazy_import("fourfold.processing")

STRIDES = {2: (16, 32), 3: (8, 16, 32)}  # by the number of heads
# Published anchors in pixels, the finest grid first.
TINY_ANCHORS = ((10, 14, 23, 27, 37, 58), (81, 82, 135, 169, 344, 319))
ANCHORS = (
    (10, 13, 16, 30, 33, 23),
    (30, 61, 62, 45, 59, 119),
    (116, 90, 156, 198, 373, 326),
)


def yolo_raw_heads(model: Described) -> Meaning | None:
    """Identify one output per grid, with three undecoded boxes per cell."""
    size, shapes = model_size(model), [info.shape for info in model.outputs]
    anchors = {2: TINY_ANCHORS, 3: ANCHORS}.get(len(shapes))
    if size is None or anchors is None:
        return None
    heads = [_head(shape) for shape in shapes]
    grids = sorted(((tall, wide) for tall, wide, _ in heads), reverse=True)
    columns = {count for _, _, count in heads}
    expected = [(size[0] // one, size[1] // one) for one in STRIDES[len(shapes)]]
    if grids != expected or len(columns) != 1:
        return None
    (count,) = columns
    if count <= BOX + 1:
        return None
    form = "square" if len(shapes[0]) == 5 else "exponential"
    option = processing.YoloHeads(anchors=anchors, form=form, size=size)
    names = tuple(info.name for info in model.outputs)
    decode = partial(_decode_heads, option, names, count - BOX - 1)
    version = "v5" if form == "square" else "v3-tiny" if len(shapes) == 2 else "v3"
    family = f"YOLO {version} with raw heads"
    meaning = Meaning(family, SHAPES, (BOXES,), names, decode, YOLO_SCALING, option, clips=True)
    return replace(meaning, datasets=(COCO,))


def _head(shape: Shape) -> tuple[int, int, int]:
    """Return height, width and columns per box, or zeros if the shape is no head."""
    if len(shape) == 5 and shape[1] == IN_CELL:
        return shape[2], shape[3], shape[4]
    if len(shape) == 4 and shape[3] % IN_CELL == 0 and shape[3] > max(shape[1:3]):
        return shape[1], shape[2], shape[3] // IN_CELL
    if len(shape) == 4 and shape[1] % IN_CELL == 0 and shape[1] > IN_CELL * (BOX + 1):
        return shape[2], shape[3], shape[1] // IN_CELL
    return 0, 0, 0


def _decode_heads(
    option: YoloHeads, names: tuple[str, ...], classes: int, reading: Reading
) -> Found:
    option = replace(option, score=reading.least(option.score))
    picked = picking.pick_boxes(option, {name: reading.numbers[name] for name in names})
    boxes = boxes_from_arrays(picked, reading.class_labels(classes))
    note = "assumed the anchors that this YOLO version was published with"
    return Found(boxes=boxes).with_notes(note)
