"""y = the boxes with the best scores that do not overlap, and the scores of those that are left.

Boxes come as `decode_boxes` gives them. Rows of the result are top, left, bottom, right, class,
score, 1; each box has one for each of its classes. Rows without a box hold zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.kernel.combine import group_combine, team_ids
from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import (
    Expression,
    const,
    maximum,
    minimum,
    vector,
    where,
    widen,
)
from fourfold.kernel.kernel import Kernel, Variable
from fourfold.kernel.view import View
from fourfold.kernels.boxes import COLUMNS, CORNERS, overlap_of, shared_part
from fourfold.kernels.reduce import split_for
from fourfold.op import Case, Op, Types, Variant
from fourfold.op.rules import require, require_kind, require_rank, takes
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class SuppressBoxes:
    """At most how many boxes, with at least which score, and how much of two may overlap."""

    most: int
    score: float
    overlap: float

    @property
    def gone(self) -> float:
        """What stands for the score of a box that is no longer looked at."""
        return self.score - 1.0


@takes("suppress_boxes", 1)
def infer(attributes: SuppressBoxes, table: TensorType) -> Types:
    op = "suppress_boxes"
    require_kind(op, frozenset({DType.F32}), table)
    require_rank(op, "the table", table, 2)
    best = (table.channels - CORNERS) // 2
    fits = table.channels == CORNERS + 2 * best and best > 0 and table.shape[0] > 0
    require(fits, op, f"{table} has no boxes with classes and scores")
    require(attributes.most > 0, op, "its limit must be positive")
    return table.with_shape(attributes.most * best, COLUMNS), table.with_shape(table.shape[0], 1)


def reference(attributes: SuppressBoxes, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    best = (table.shape[1] - CORNERS) // 2
    rows = np.zeros((attributes.most * best, COLUMNS), np.float32)
    left = np.where(table[:, 5] >= attributes.score, table[:, 5], np.float32(attributes.gone))
    for pick in range(attributes.most):
        place = int(left.argmax())
        if left[place] < attributes.score:
            break
        for kind in range(best):
            found = table[place, CORNERS + 2 * kind : CORNERS + 2 * kind + 2]
            rows[pick * best + kind] = (*table[place, :CORNERS], *found, 1)
        gone = overlap_of(table[place, :CORNERS], table[:, :CORNERS]) > attributes.overlap
        gone[place] = True
        left = np.where(gone, np.float32(attributes.gone), left)
    return rows, left.astype(np.float32)[:, None]


def build(context: NodeContext) -> None:
    """One group picks box after box; each of its work-items looks after its own share of them."""
    attributes = context.attributes
    assert isinstance(attributes, SuppressBoxes)
    kernel = context.kernel("suppress_boxes")
    table, rows = context.read(kernel, 0, "table"), context.write(kernel)
    left = context.write(kernel, 1, "left")
    split = split_for(context, context.input.shape[0])
    _, item = team_ids(kernel, context.device, 1, split)
    least, gone = (kernel.number(n, getattr(attributes, n)) for n in ("score", "gone"))
    with kernel.loop(table.pixels, item, split, title="i") as i:
        score = kernel.let(table.element(i, CORNERS + 1), "x")
        left.store(i, const(0), widen(where(score >= least, score, gone), 4))
    with kernel.loop(attributes.most, title="pick") as pick:
        place = _best(kernel, left, item, split, gone)
        found = kernel.let(place < table.pixels, "found")
        place = kernel.let(minimum(place, table.pixels - 1), "box")
        corners = table.load(place, 0)
        with kernel.when(found), kernel.loop(table.pixels, item, split, title="i") as i:
            other = table.load(i, 0)
            goes = i.equals(place) | (shared_part(kernel, corners, other) > attributes.overlap)
            with kernel.when(goes):
                left.store(i, const(0), widen(gone, 4))
        with kernel.when(item.equals(0) if split > 1 else const(True)):
            _give(table, rows, pick, (found, place, corners))


def _best(kernel: Kernel, left: View, item: Expression, split: int, gone: Expression) -> Expression:
    """The first of those with the best score; one beyond the last where none is left."""
    best: Variable = kernel.variable(gone, "best")
    place = kernel.variable(left.pixels, "place")
    with kernel.loop(left.pixels, item, split, title="i") as i:
        x = kernel.let(left.lane(i, 0, 0), "x")
        wins = kernel.let(x > best, "wins")
        kernel.set(best, where(wins, x, best))
        kernel.set(place, where(wins, i, place))
    mine = kernel.variable(best, "mine")
    group_combine(kernel, [best], split, maximum)
    if split > 1:
        kernel.set(place, where(mine.equals(best), place, left.pixels))
        group_combine(kernel, [place], split, minimum)
    return place


def _give(
    table: View,
    rows: View,
    pick: Expression,
    box: tuple[Expression, Expression, Expression],
) -> None:
    """Write the rows of a box, or zeros."""
    found, place, corners = box
    best = (table.type.channels - CORNERS) // 2
    zero, one = const(0.0, rows.kind), const(1.0, rows.kind)
    for number in range(best):
        kind, score = (table.element(place, CORNERS + 2 * number + n) for n in (0, 1))
        row = pick * best + number
        rows.store(row, const(0), where(found, corners, widen(zero, 4)))
        lanes = vector(kind, score, one, zero)
        rows.store(row, const(1), where(found, lanes, widen(zero, 4)))


OP = Op(
    name="suppress_boxes",
    attributes=SuppressBoxes,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("group", build),),
    cases=(
        Case(("f32[29,6]",), SuppressBoxes(7, 0.3, 0.1), low=0, high=1),
        Case(("f32[1,8]",), SuppressBoxes(3, -1.0, 0.5), low=0, high=1),
        Case(("f32[131,10]",), SuppressBoxes(11, 0.1, 0.3), low=-1, high=1),
        Case(("f32[1917,6]",), SuppressBoxes(5, 0.5, 0.6), low=0, high=1),
    ),
)
