"""indices, count, owners = non-max suppression of boxes (top, left, bottom, right) by score.

All results are columns for each picture of a batch. `indices` are the kept boxes, the best score
first and the earlier box first among equals, followed by -1. `count` is the number of kept boxes.
`owners` maps each box to the number, among the kept boxes, of itself or of the box that suppresses
it; -1 for boxes below the minimum score and for those beyond the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.combine import group_combine
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, load, maximum, minimum, where, widen
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import require, takes
from fourfold.ops.kernels.boxes import CORNERS, kernel_overlap, overlap_of
from fourfold.ops.kernels.reduce import split_for
from fourfold.types import DType, TensorType

NO_BOX = -1


@dataclass(frozen=True)
class NonMaxSuppression:
    """The maximum number of boxes, the minimum score and the maximum overlap.

    Boxes of different classes, if there are classes, do not suppress each other.
    """

    most: int
    score: float
    overlap: float


@takes("non_max_suppression", 2, 3)
def infer(
    attributes: NonMaxSuppression,
    boxes: TensorType,
    scores: TensorType,
    classes: TensorType | None = None,
) -> Types:
    op = "non_max_suppression"
    real = boxes.dtype is DType.F32 and scores.dtype is DType.F32
    require(real, op, f"it takes float32 inputs, not {boxes} and {scores}")
    fits = boxes.rank == 3 and boxes.channels == CORNERS and boxes.elements > 0
    require(fits, op, f"boxes are {boxes}, but must be [batch,N,4]")
    require(scores.shape == (*boxes.shape[:2], 1), op, f"scores are {scores}, but boxes {boxes}")
    matches = classes is None or classes == TensorType(DType.I32, scores.shape)
    require(matches, op, f"classes are {classes}, but scores {scores}")
    require(attributes.most > 0, op, "the maximum number of boxes must be positive")
    batch, count, _ = scores.shape
    indices = TensorType(DType.I32, (batch, attributes.most, 1))
    return indices, indices.with_shape(batch, 1), indices.with_shape(batch, count, 1)


def reference(
    attributes: NonMaxSuppression,
    boxes: np.ndarray,
    scores: np.ndarray,
    classes: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    indices = np.full((len(boxes), attributes.most, 1), NO_BOX, np.int32)
    owners = np.full(scores.shape, NO_BOX, np.int32)
    for batch in range(len(boxes)):
        kinds = np.zeros(boxes.shape[1]) if classes is None else classes[batch, :, 0]
        remaining = np.flatnonzero(scores[batch, :, 0] >= np.float32(attributes.score))
        for pick in range(min(attributes.most, remaining.size)):
            if not remaining.size:
                break
            best = remaining[scores[batch, remaining, 0].argmax()]
            over = overlap_of(boxes[batch, best], boxes[batch, remaining]) > attributes.overlap
            suppressed = (over & (kinds[remaining] == kinds[best])) | (remaining == best)
            indices[batch, pick] = best
            owners[batch, remaining[suppressed]] = pick
            remaining = remaining[~suppressed]
    return indices, (indices != NO_BOX).sum(1, dtype=np.int32), owners


class _Suppression:
    """The kernel: one group per picture selects box after box.

    Boxes are distributed over the work-items with a stride. Each work-item lists its few boxes that
    reach the minimum score, and only it reads the list and writes the owners of these boxes.
    """

    def __init__(self, context: NodeContext) -> None:
        attributes = context.attributes
        assert isinstance(attributes, NonMaxSuppression)
        self.attributes, self.kernel = attributes, context.kernel("non_max_suppression")
        self.kernel.real = "float"  # in fp16, different scores could become equal
        batch, count, _ = context.input.shape
        self.boxes, self.scores = (
            context.read(self.kernel, number, title)
            for number, title in enumerate(("boxes", "scores"))
        )
        with_classes = len(context.node.inputs) > 2
        self.classes = context.read(self.kernel, 2, "classes") if with_classes else None
        self.indices, self.counts, self.owners = (
            context.write(self.kernel, number, title)
            for number, title in enumerate(("indices", "counts", "owners"))
        )
        scratch = context.scratch("candidates", DType.I32, batch * count)
        self.candidates = self.kernel.pointer("candidates", DType.I32, scratch, writable=True)
        self.split = split_for(context, count)
        (item,) = self.kernel.ids(batch * self.split, local=(self.split,))
        self.batch = self.kernel.let(item // self.split, "batch")
        self.lane = self.kernel.local_id(0)
        self.count = self.kernel.size("box_count", count)
        self.first = self.kernel.let(self.batch * self.count, "first")
        self.mine = self.kernel.variable(const(0), "mine")

    def write(self) -> None:
        kernel, most = self.kernel, self.attributes.most
        self._collect()
        candidates = kernel.variable(self.mine, "found")
        group_combine(kernel, [candidates], self.split, lambda a, b: a + b)
        tries = kernel.let(minimum(candidates, kernel.size("most", most)), "tries")
        picked = kernel.variable(const(0), "picked")
        with kernel.loop(tries, title="pick") as pick:
            box = self._best()
            exists = kernel.let(box < self.count, "exists")
            box = kernel.let(minimum(box, self.count - 1), "box")
            with kernel.when(exists):
                self._suppress_overlaps(pick, box)
                kernel.set(picked, picked + 1)
            with self._on_first_lane():
                self._store_index(pick, where(exists, box, NO_BOX))
        with self._on_first_lane():
            with kernel.loop(kernel.size("most", most), tries, title="pick") as pick:
                self._store_index(pick, const(NO_BOX))
            self.counts.store(self.batch, const(0), widen(picked, 4))

    def _on_first_lane(self) -> AbstractContextManager[object]:
        """Open a block that one work-item of the group runs."""
        return self.kernel.when(self.lane.equals(0) if self.split > 1 else const(True))

    def _store_index(self, pick: Expression, box: Expression) -> None:
        row = self.batch * self.kernel.size("most", self.attributes.most) + pick
        self.indices.store(self.kernel.let(row, "row"), const(0), widen(box, 4))

    def _collect(self) -> None:
        """List the boxes of this work-item that reach the minimum score."""
        kernel = self.kernel
        minimum_score = kernel.number("score", self.attributes.score)
        with kernel.loop(self.count, self.lane, self.split, title="i") as i:
            self._set_owner(i, const(NO_BOX))
            with kernel.when(self._score(i) >= minimum_score):
                kernel.store(self.candidates, self._slot(self.mine), i)
                kernel.set(self.mine, self.mine + 1)

    def _slot(self, number: Expression) -> Expression:
        return self.first + number * self.split + self.lane

    def _score(self, box: Expression) -> Expression:
        return self.kernel.let(self.scores.lane(self.first + box, 0, 0), "x")

    def _set_owner(self, box: Expression, pick: Expression) -> None:
        self.owners.store(self.kernel.let(self.first + box, "own"), const(0), widen(pick, 4))

    @contextmanager
    def _unowned_boxes(self) -> Iterator[Expression]:
        """Yield each box of this work-item's list that has no owner."""
        kernel = self.kernel
        with kernel.loop(self.mine, title="candidate") as number:
            box = kernel.let(load(self.candidates, self._slot(number), "int"), "i")
            owner = self.owners.lane(self.first + box, 0, 0)
            with kernel.when(owner.equals(NO_BOX)):
                yield box

    def _best(self) -> Expression:
        """Return the first box with the best score, or the number of boxes if none is left."""
        kernel = self.kernel
        best = kernel.variable(const(float("-inf"), "float"), "best")
        winner = kernel.variable(self.count, "place")
        with self._unowned_boxes() as box:
            x = self._score(box)
            with kernel.when((x > best) | winner.equals(self.count)):
                kernel.set(best, x)
                kernel.set(winner, box)
        own = kernel.variable(best, "own_best")
        group_combine(kernel, [best], self.split, maximum)
        if self.split > 1:
            kernel.set(winner, where(own.equals(best), winner, self.count))
            group_combine(kernel, [winner], self.split, minimum)
        return winner

    def _suppress_overlaps(self, pick: Expression, winner: Expression) -> None:
        """Make a box the owner of itself and of all boxes that overlap it too much."""
        kernel = self.kernel
        corners = self.boxes.load(self.first + winner, 0)
        kind = None if self.classes is None else self._kind(self.classes, winner)
        with self._unowned_boxes() as box:
            over = kernel_overlap(kernel, corners, self.boxes.load(self.first + box, 0))
            goes = over > self.attributes.overlap
            if self.classes is not None and kind is not None:
                goes = goes & self._kind(self.classes, box).equals(kind)
            with kernel.when(goes | box.equals(winner)):
                self._set_owner(box, pick)

    def _kind(self, classes: View, box: Expression) -> Expression:
        return self.kernel.let(classes.lane(self.first + box, 0, 0), "kind")


def build(context: NodeContext) -> None:
    """Write one group per picture. Nothing is sorted, because few boxes reach the minimum score."""
    _Suppression(context).write()


OP = Op(
    name="non_max_suppression",
    attributes=NonMaxSuppression,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("group", build),),
    cases=(
        Case(("f32[1,29,4]", "f32[1,29,1]"), NonMaxSuppression(7, 0.3, 0.1), low=0, high=1),
        Case(("f32[2,1,4]", "f32[2,1,1]"), NonMaxSuppression(3, -1.0, 0.5), low=0, high=1),
        Case(
            ("f32[3,131,4]", "f32[3,131,1]", "i32[3,131,1]"),
            NonMaxSuppression(11, -1.5, 0.3),
            low=-2,
            high=2,
        ),
        Case(("f32[1,1917,4]", "f32[1,1917,1]"), NonMaxSuppression(5, 0.5, 0.6), low=0, high=1),
        Case(("f32[1,37,4]", "f32[1,37,1]"), NonMaxSuppression(41, 2.0, 0.6), low=0, high=1),
        Case(
            ("f32[2,53,4]", "f32[2,53,1]", "i32[2,53,1]"),
            NonMaxSuppression(53, 0.0, 0.0),
            low=0,
            high=1,
        ),
    ),
)
