"""y = the boxes with the best scores that do not overlap, and the scores of the boxes left over.

The input has the format of `decode_boxes`. Rows of the result are top, left, bottom, right, class,
score, 1, with one row for each class of a box. Rows without a box are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.combine import group_combine, team_ids
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import (
    Expression,
    const,
    maximum,
    minimum,
    vector,
    where,
    widen,
)
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import require, require_kind, require_rank, takes
from fourfold.ops.kernels.boxes import COLUMNS, CORNERS, kernel_overlap, overlap_of
from fourfold.ops.kernels.reduce import split_for
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class SuppressBoxes:
    """The maximum number of boxes, the minimum score and the maximum overlap."""

    most: int
    score: float
    overlap: float

    @property
    def gone(self) -> float:
        """The score that marks a box as removed."""
        return self.score - 1.0


@takes("suppress_boxes", 1)
def infer(attributes: SuppressBoxes, table: TensorType) -> Types:
    op = "suppress_boxes"
    require_kind(op, frozenset({DType.F32}), table)
    require_rank(op, "the table", table, 2)
    best = (table.channels - CORNERS) // 2
    fits = table.channels == CORNERS + 2 * best and best > 0 and table.shape[0] > 0
    require(fits, op, f"{table} does not hold boxes with classes and scores")
    require(attributes.most > 0, op, "the maximum number of boxes must be positive")
    return table.with_shape(attributes.most * best, COLUMNS), table.with_shape(table.shape[0], 1)


def reference(attributes: SuppressBoxes, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    best = (table.shape[1] - CORNERS) // 2
    rows = np.zeros((attributes.most * best, COLUMNS), np.float32)
    remaining = np.where(table[:, 5] >= attributes.score, table[:, 5], np.float32(attributes.gone))
    for pick in range(attributes.most):
        winner = int(remaining.argmax())
        if remaining[winner] < attributes.score:
            break
        for kind in range(best):
            class_and_score = table[winner, CORNERS + 2 * kind : CORNERS + 2 * kind + 2]
            rows[pick * best + kind] = (*table[winner, :CORNERS], *class_and_score, 1)
        suppressed = overlap_of(table[winner, :CORNERS], table[:, :CORNERS]) > attributes.overlap
        suppressed[winner] = True
        remaining = np.where(suppressed, np.float32(attributes.gone), remaining)
    return rows, remaining.astype(np.float32)[:, None]


def build(context: NodeContext) -> None:
    """Select box after box with one group, whose work-items share the boxes."""
    attributes = context.attributes
    assert isinstance(attributes, SuppressBoxes)
    kernel = context.kernel("suppress_boxes")
    table, rows = context.read(kernel, 0, "table"), context.write(kernel)
    left = context.write(kernel, 1, "left")
    split = split_for(context, context.input.shape[0])
    _, item = team_ids(kernel, context.device, 1, split)
    minimum_score, gone = (kernel.number(n, getattr(attributes, n)) for n in ("score", "gone"))
    with kernel.loop(table.pixels, item, split, title="i") as i:
        score = kernel.let(table.element(i, CORNERS + 1), "x")
        left.store(i, const(0), widen(where(score >= minimum_score, score, gone), 4))
    with kernel.loop(attributes.most, title="pick") as pick:
        winner = _best(kernel, left, item, split, gone)
        exists = kernel.let(winner < table.pixels, "found")
        winner = kernel.let(minimum(winner, table.pixels - 1), "box")
        corners = table.load(winner, 0)
        with kernel.when(exists), kernel.loop(table.pixels, item, split, title="i") as i:
            other = table.load(i, 0)
            goes = i.equals(winner) | (kernel_overlap(kernel, corners, other) > attributes.overlap)
            with kernel.when(goes):
                left.store(i, const(0), widen(gone, 4))
        with kernel.when(item.equals(0) if split > 1 else const(True)):
            _store_rows(table, rows, pick, (exists, winner, corners))


def _best(kernel: Kernel, left: View, item: Expression, split: int, gone: Expression) -> Expression:
    """Return the first box with the best score, or the number of boxes if none is left."""
    best: Variable = kernel.variable(gone, "best")
    winner = kernel.variable(left.pixels, "place")
    with kernel.loop(left.pixels, item, split, title="i") as i:
        x = kernel.let(left.lane(i, 0, 0), "x")
        wins = kernel.let(x > best, "wins")
        kernel.set(best, where(wins, x, best))
        kernel.set(winner, where(wins, i, winner))
    mine = kernel.variable(best, "mine")
    group_combine(kernel, [best], split, maximum)
    if split > 1:
        kernel.set(winner, where(mine.equals(best), winner, left.pixels))
        group_combine(kernel, [winner], split, minimum)
    return winner


def _store_rows(
    table: View,
    rows: View,
    pick: Expression,
    box: tuple[Expression, Expression, Expression],
) -> None:
    """Write the rows of a box, or zeros."""
    exists, winner, corners = box
    best = (table.type.channels - CORNERS) // 2
    zero, one = const(0.0, rows.kind), const(1.0, rows.kind)
    for number in range(best):
        kind, score = (table.element(winner, CORNERS + 2 * number + n) for n in (0, 1))
        row = pick * best + number
        rows.store(row, const(0), where(exists, corners, widen(zero, 4)))
        lanes = vector(kind, score, one, zero)
        rows.store(row, const(1), where(exists, lanes, widen(zero, 4)))


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
