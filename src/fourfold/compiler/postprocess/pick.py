"""Nodes for non-maximum suppression, which also select the data that belongs to boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.compiler.postprocess.grown_graph import GrownGraph
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.rules import Reduce
from fourfold.ops.blend_rows import BlendRows
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.non_max_suppression import NonMaxSuppression
from fourfold.processing.boxes import Picking

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
        *(boxes.corners, boxes.scores, *(() if compared is None else (compared,))),
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
