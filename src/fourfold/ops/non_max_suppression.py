"""indices, count, owners = which of boxes that overlap have the best scores.

All are columns for each picture of a batch; boxes are top, left, bottom, right. `indices` are the
places of those that stay, the best score first, of equal ones the earlier; then -1. `count` is how
many stay. `owners` has for each box the number, among those that stay, of the one that it is or
overlaps too much; -1 for those below the score and those that are left over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np

from fourfold.kernel.combine import group_combine
from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, load, maximum, minimum, where, widen
from fourfold.kernel.view import View
from fourfold.kernels.boxes import CORNERS, overlap_of, shared_part
from fourfold.kernels.reduce import split_for
from fourfold.op import Case, Op, Types, Variant
from fourfold.op.rules import require, takes
from fourfold.types import DType, TensorType

NOBODY = -1


@dataclass(frozen=True)
class NonMaxSuppression:
    """At most how many boxes, with at least which score, and how much of two may overlap. Where
    boxes come with classes, those of different ones may overlap as they like.
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
    require(real, op, f"it takes floats, not {boxes} and {scores}")
    fits = boxes.rank == 3 and boxes.channels == CORNERS and boxes.elements > 0
    require(fits, op, f"boxes are {boxes}, but must be [batch,N,4]")
    require(scores.shape == (*boxes.shape[:2], 1), op, f"scores are {scores}, but boxes {boxes}")
    known = classes is None or classes == TensorType(DType.I32, scores.shape)
    require(known, op, f"classes are {classes}, but scores {scores}")
    require(attributes.most > 0, op, "its limit must be positive")
    batch, count, _ = scores.shape
    indices = TensorType(DType.I32, (batch, attributes.most, 1))
    return indices, indices.with_shape(batch, 1), indices.with_shape(batch, count, 1)


def reference(
    attributes: NonMaxSuppression,
    boxes: np.ndarray,
    scores: np.ndarray,
    classes: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    indices = np.full((len(boxes), attributes.most, 1), NOBODY, np.int32)
    owners = np.full(scores.shape, NOBODY, np.int32)
    for batch in range(len(boxes)):
        kinds = np.zeros(boxes.shape[1]) if classes is None else classes[batch, :, 0]
        left = np.flatnonzero(scores[batch, :, 0] >= np.float32(attributes.score))
        for pick in range(min(attributes.most, left.size)):
            if not left.size:
                break
            place = left[scores[batch, left, 0].argmax()]
            over = overlap_of(boxes[batch, place], boxes[batch, left]) > attributes.overlap
            gone = (over & (kinds[left] == kinds[place])) | (left == place)
            indices[batch, pick] = place
            owners[batch, left[gone]] = pick
            left = left[~gone]
    return indices, (indices != NOBODY).sum(1, dtype=np.int32), owners


class _Suppression:
    """The kernel: a group for each picture picks box after box.

    Every so many-th box is a work-item's own. It keeps a list of those that have the score, which
    are few, and only it reads that list and writes who owns them.
    """

    def __init__(self, context: NodeContext) -> None:
        attributes = context.attributes
        assert isinstance(attributes, NonMaxSuppression)
        self.attributes, self.kernel = attributes, context.kernel("non_max_suppression")
        self.kernel.real = "float"  # halves would make equals of scores that differ
        batch, count, _ = context.input.shape
        self.boxes, self.scores = (
            context.read(self.kernel, place, title)
            for place, title in enumerate(("boxes", "scores"))
        )
        with_classes = len(context.node.inputs) > 2
        self.classes = context.read(self.kernel, 2, "classes") if with_classes else None
        self.indices, self.counts, self.owners = (
            context.write(self.kernel, place, title)
            for place, title in enumerate(("indices", "counts", "owners"))
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
        found = kernel.variable(self.mine, "found")
        group_combine(kernel, [found], self.split, lambda a, b: a + b)
        tries = kernel.let(minimum(found, kernel.size("most", most)), "tries")
        picked = kernel.variable(const(0), "picked")
        with kernel.loop(tries, title="pick") as pick:
            place = self._best()
            exists = kernel.let(place < self.count, "exists")
            place = kernel.let(minimum(place, self.count - 1), "box")
            with kernel.when(exists):
                self._take(pick, place)
                kernel.set(picked, picked + 1)
            with self._once():
                self._give(pick, where(exists, place, NOBODY))
        with self._once():
            with kernel.loop(kernel.size("most", most), tries, title="pick") as pick:
                self._give(pick, const(NOBODY))
            self.counts.store(self.batch, const(0), widen(picked, 4))

    def _once(self) -> AbstractContextManager[object]:
        """By one work-item for all."""
        return self.kernel.when(self.lane.equals(0) if self.split > 1 else const(True))

    def _give(self, pick: Expression, place: Expression) -> None:
        row = self.batch * self.kernel.size("most", self.attributes.most) + pick
        self.indices.store(self.kernel.let(row, "row"), const(0), widen(place, 4))

    def _collect(self) -> None:
        """This work-item's list of boxes with the score."""
        kernel = self.kernel
        least = kernel.number("score", self.attributes.score)
        with kernel.loop(self.count, self.lane, self.split, title="i") as i:
            self._own(i, const(NOBODY))
            with kernel.when(self._score(i) >= least):
                kernel.store(self.candidates, self._slot(self.mine), i)
                kernel.set(self.mine, self.mine + 1)

    def _slot(self, number: Expression) -> Expression:
        return self.first + number * self.split + self.lane

    def _score(self, box: Expression) -> Expression:
        return self.kernel.let(self.scores.lane(self.first + box, 0, 0), "x")

    def _own(self, box: Expression, pick: Expression) -> None:
        self.owners.store(self.kernel.let(self.first + box, "own"), const(0), widen(pick, 4))

    @contextmanager
    def _waiting(self) -> Iterator[Expression]:
        """Each box of this work-item's list that nobody owns."""
        kernel = self.kernel
        with kernel.loop(self.mine, title="candidate") as number:
            box = kernel.let(load(self.candidates, self._slot(number), "int"), "i")
            owner = self.owners.lane(self.first + box, 0, 0)
            with kernel.when(owner.equals(NOBODY)):
                yield box

    def _best(self) -> Expression:
        """The first of those with the best score; one beyond the last where none is left."""
        kernel = self.kernel
        best = kernel.variable(const(float("-inf"), "float"), "best")
        place = kernel.variable(self.count, "place")
        with self._waiting() as box:
            x = self._score(box)
            with kernel.when((x > best) | place.equals(self.count)):
                kernel.set(best, x)
                kernel.set(place, box)
        own = kernel.variable(best, "own_best")
        group_combine(kernel, [best], self.split, maximum)
        if self.split > 1:
            kernel.set(place, where(own.equals(best), place, self.count))
            group_combine(kernel, [place], self.split, minimum)
        return place

    def _take(self, pick: Expression, place: Expression) -> None:
        """A box gets all that overlap it too much, itself among them."""
        kernel = self.kernel
        corners = self.boxes.load(self.first + place, 0)
        kind = None if self.classes is None else self._kind(self.classes, place)
        with self._waiting() as box:
            over = shared_part(kernel, corners, self.boxes.load(self.first + box, 0))
            goes = over > self.attributes.overlap
            if self.classes is not None and kind is not None:
                goes = goes & self._kind(self.classes, box).equals(kind)
            with kernel.when(goes | box.equals(place)):
                self._own(box, pick)

    def _kind(self, classes: View, box: Expression) -> Expression:
        return self.kernel.let(classes.lane(self.first + box, 0, 0), "kind")


def build(context: NodeContext) -> None:
    """One group a picture; nothing is sorted, since few boxes have the score."""
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
