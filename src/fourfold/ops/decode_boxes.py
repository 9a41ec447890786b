"""y = top, left, bottom, right of each box, then its best classes, each with its score.

Boxes are offsets from anchors (y, x, height, width). There is one score per class, preceded by the
background's if there is one more score than classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, convert, exp, vector, where
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import require, takes
from fourfold.ops.kernels.boxes import CORNERS, corners_of
from fourfold.ops.kernels.grid import independent_group
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class DecodeBoxes:
    """Scales of the offsets (y, x, height, width), number of classes, and best classes per box."""

    scales: tuple[float, float, float, float]
    classes: int
    best: int = 1

    @property
    def columns(self) -> int:
        return CORNERS + 2 * self.best


@takes("decode_boxes", 3)
def infer(
    attributes: DecodeBoxes, boxes: TensorType, scores: TensorType, anchors: TensorType
) -> Types:
    op, count = "decode_boxes", anchors.shape[0]
    require(
        {boxes.dtype, scores.dtype, anchors.dtype} == {DType.F32}, op, "it takes float32 inputs"
    )
    fits = boxes.shape[:2] == (1, count) and boxes.rank == 3 and boxes.channels >= CORNERS
    require(fits, op, f"boxes are {boxes}, but anchors {anchors}")
    require(scores.shape[:2] == (1, count) and scores.rank == 3, op, f"scores are {scores}")
    valid = 0 < attributes.best <= attributes.classes <= scores.channels
    require(
        valid,
        op,
        f"{scores} cannot give the best {attributes.best} of {attributes.classes} classes",
    )
    return (TensorType(DType.F32, (count, attributes.columns)),)


def reference(
    attributes: DecodeBoxes, boxes: np.ndarray, scores: np.ndarray, anchors: np.ndarray
) -> np.ndarray:
    class_scores = scores[0, :, scores.shape[2] - attributes.classes :]
    order = np.argsort(-class_scores, axis=1, kind="stable")[:, : attributes.best]
    best = np.stack([order, np.take_along_axis(class_scores, order, 1)], axis=2)
    corners = corners_of(boxes[0, :, :CORNERS], anchors, attributes.scales)
    return np.concatenate([corners, best.reshape(len(anchors), -1)], 1).astype(np.float32)


def build(context: NodeContext) -> None:
    """Decode one box per work-item."""
    attributes = context.attributes
    assert isinstance(attributes, DecodeBoxes)
    kernel = context.kernel("decode_boxes")
    boxes, scores = context.read(kernel, 0, "boxes"), context.read(kernel, 1, "scores")
    anchors, target = context.read(kernel, 2, "anchors"), context.write(kernel)
    count = context.output.pixels
    (box,) = kernel.ids(count, local=independent_group(context.device, count, 1))
    target.store(box, const(0), _corners(kernel, boxes, anchors, attributes, box))
    lanes = [const(0.0, scores.kind)] * (-attributes.best % 2 * 2)
    lanes = [*_best(kernel, scores, attributes, box), *lanes]
    for number in range(0, len(lanes), 4):
        target.store(box, const(1 + number // 4), vector(*lanes[number : number + 4]))


def _corners(
    kernel: Kernel, boxes: View, anchors: View, attributes: DecodeBoxes, box: Expression
) -> Expression:
    offset, anchor = boxes.load(box, 0), anchors.load(box, 0)
    parts = [offset.lane(n) / scale for n, scale in enumerate(attributes.scales)]
    centers = [kernel.let(parts[n] * anchor.lane(n + 2) + anchor.lane(n), "c") for n in (0, 1)]
    halves = [kernel.let(exp(parts[n]) * 0.5 * anchor.lane(n), "half_side") for n in (2, 3)]
    sides = list(zip(centers, halves, strict=True))
    return vector(*(center - half for center, half in sides), *(c + half for c, half in sides))


def _best(
    kernel: Kernel, scores: View, attributes: DecodeBoxes, box: Expression
) -> list[Expression]:
    """Return the best classes in order, each followed by its score; ties go to the earlier
    class.
    """
    background = scores.type.channels - attributes.classes
    lanes: list[Expression] = []
    last: tuple[Expression, Expression] | None = None
    for _ in range(attributes.best):
        best = kernel.variable(const(float("-inf"), scores.kind), "best")
        winner = kernel.variable(const(background), "place")
        with kernel.loop(scores.channels, background, title="i") as i:
            x = kernel.let(scores.element(box, i), "x")
            wins = x > best
            if last is not None:
                wins = wins & ((x < last[0]) | (x.equals(last[0]) & (i > last[1])))
            wins = kernel.let(wins, "wins")
            kernel.set(best, where(wins, x, best))
            kernel.set(winner, where(wins, i, winner))
        last = (best, winner)
        lanes += [convert(winner - background, scores.kind), best]
    return lanes


OP = Op(
    name="decode_boxes",
    attributes=DecodeBoxes,
    infer=infer,
    reference=reference,
    variants=(Variant("each", build),),
    cases=(
        Case(
            ("f32[1,29,4]", "f32[1,29,4]", "f32[29,4]"),
            DecodeBoxes((10.0, 10.0, 5.0, 5.0), 3),
            constants=(2,),
        ),
        Case(
            ("f32[1,7,18]", "f32[1,7,5]", "f32[7,4]"),
            DecodeBoxes((10.0, 10.0, 5.0, 5.0), 5, best=3),
        ),
        Case(
            ("f32[1,13,4]", "f32[1,13,91]", "f32[13,4]"),
            DecodeBoxes((1.0, 2.0, 3.0, 4.0), 90, best=2),
        ),
    ),
)
