"""y = top, left, bottom, right of each box, decoded from a detector's numbers and its anchors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, exp, vector
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import require, require_kind, takes
from fourfold.ops.kernels.boxes import CORNERS
from fourfold.ops.kernels.grid import independent_group
from fourfold.types import DType, TensorType

PLAIN_ANCHOR = (0.0, 0.0, 1.0, 1.0)  # the whole picture


@dataclass(frozen=True)
class BoxCorners:
    """How four numbers encode a box; each is divided by its scale first.

    'corners': they are top, left, bottom and right. In all other forms they are y, x, height and
    width, relative to an anchor (y, x, height, width). Without anchors, that is the whole picture.

    'linear'           center = number * anchor size + anchor center; size = number * anchor size
    'exponential'      as 'linear', but size = exp(number) * anchor size (SSD)
    'grid exponential' center = logistic(number) / scale + anchor center; size as before (YOLO v3)
    'grid square'      the same center; size = logistic(number)**2 / scale * anchor size (YOLO v5)

    `columns` are the positions of the four numbers among the channels.
    """

    form: str
    columns: tuple[int, int, int, int] = (0, 1, 2, 3)
    scales: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)

    @property
    def on_grid(self) -> bool:
        return self.form.startswith("grid ")


FORMS = ("corners", "linear", "exponential", "grid exponential", "grid square")


@takes("box_corners", 1, 2)
def infer(attributes: BoxCorners, boxes: TensorType, anchors: TensorType | None = None) -> Types:
    op = "box_corners"
    require_kind(op, frozenset({DType.F32}), *(t for t in (boxes, anchors) if t is not None))
    require(boxes.rank == 3, op, f"boxes are {boxes}, but must be [batch,N,4]")
    valid = attributes.form in FORMS and min(attributes.columns) >= 0
    require(
        valid and max(attributes.columns) < boxes.channels,
        op,
        f"{boxes} do not have the columns of {attributes}",
    )
    require(0 not in attributes.scales, op, "a scale must not be 0")
    fits = anchors is None or anchors.shape == (boxes.shape[1], CORNERS)
    require(fits, op, f"anchors are {anchors}, but must be [{boxes.shape[1]},4]")
    return (boxes.with_shape(*boxes.shape[:2], CORNERS),)


def _logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def reference(
    attributes: BoxCorners, boxes: np.ndarray, anchors: np.ndarray | None = None
) -> np.ndarray:
    numbers = boxes[..., list(attributes.columns)].astype(np.float32)
    scales = np.array(attributes.scales, np.float32)
    if attributes.form == "corners":
        return np.asarray(numbers / scales, np.float32)
    anchor = np.array(PLAIN_ANCHOR, np.float32) if anchors is None else anchors
    if attributes.form == "grid square":
        parts = _logistic(numbers)
        parts = parts ** np.array((1, 1, 2, 2), np.float32) / scales
    elif attributes.on_grid:
        centres = _logistic(numbers[..., :2]) / scales[:2]
        parts = np.concatenate([centres, np.exp(numbers[..., 2:] / scales[2:])], -1)
    else:
        parts = numbers / scales
        if attributes.form == "exponential":
            parts[..., 2:] = np.exp(parts[..., 2:])
    sizes = anchor[..., 2:]
    centres = parts[..., :2] * (1 if attributes.on_grid else sizes) + anchor[..., :2]
    halves = np.float32(0.5) * parts[..., 2:] * sizes
    return np.concatenate([centres - halves, centres + halves], -1).astype(np.float32)


def build(context: NodeContext) -> None:
    """Decode one box per work-item."""
    attributes = context.attributes
    assert isinstance(attributes, BoxCorners)
    kernel = context.kernel(f"box_corners_{attributes.form.replace(' ', '_')}")
    kernel.real = "float"
    boxes, target = context.read(kernel, 0, "boxes"), context.write(kernel)
    with_anchors = len(context.node.inputs) > 1
    anchors = context.read(kernel, 1, "anchors") if with_anchors else None
    count = context.output.pixels
    (box,) = kernel.ids(count, local=independent_group(context.device, count, 1))
    numbers = [kernel.let(boxes.element(box, column), "number") for column in attributes.columns]
    parts = _PARTS[attributes.form](kernel, attributes, numbers)
    if attributes.form == "corners":
        target.store(box, const(0), vector(*parts))
        return
    target.store(box, const(0), vector(*_relative(kernel, attributes, parts, anchors, box)))


def _relative(
    kernel: Kernel,
    attributes: BoxCorners,
    parts: list[Expression],
    anchors: View | None,
    box: Expression,
) -> list[Expression]:
    """Return the corners of a box that is relative to its anchor."""
    anchor = [const(one, "float") for one in PLAIN_ANCHOR]
    if anchors is not None:
        anchor_number = kernel.let(box % anchors.pixels, "place")
        read = anchors.load(anchor_number, 0)
        anchor = [read.lane(n) for n in range(CORNERS)]
    factors = [const(1.0, "float")] * 2 if attributes.on_grid else anchor[2:]
    centres = [kernel.let(parts[n] * factors[n] + anchor[n], "centre") for n in (0, 1)]
    halves = [kernel.let(parts[n] * 0.5 * anchor[n], "half_side") for n in (2, 3)]
    sides = list(zip(centres, halves, strict=True))
    return [*(centre - half for centre, half in sides), *(c + half for c, half in sides)]


Parts = Callable[[Kernel, BoxCorners, list[Expression]], list[Expression]]


def _divided(kernel: Kernel, attributes: BoxCorners, numbers: list[Expression]) -> list[Expression]:
    return [number / scale for number, scale in zip(numbers, attributes.scales, strict=True)]


def _exponential(
    kernel: Kernel, attributes: BoxCorners, numbers: list[Expression]
) -> list[Expression]:
    parts = _divided(kernel, attributes, numbers)
    return [*parts[:2], *(exp(part) for part in parts[2:])]


def _grid(kernel: Kernel, attributes: BoxCorners, numbers: list[Expression]) -> list[Expression]:
    centres = [const(1.0, "float") / (exp(-number) + 1.0) for number in numbers[:2]]
    sizes = _exponential(kernel, attributes, numbers)[2:]
    return [*_divided(kernel, attributes, [*centres, *numbers[2:]])[:2], *sizes]


def _grid_square(
    kernel: Kernel, attributes: BoxCorners, numbers: list[Expression]
) -> list[Expression]:
    activated = [
        kernel.let(const(1.0, "float") / (exp(-number) + 1.0), "part") for number in numbers
    ]
    return _divided(kernel, attributes, [*activated[:2], *(part * part for part in activated[2:])])


_PARTS: Mapping[str, Parts] = {
    "corners": _divided,
    "linear": _divided,
    "exponential": _exponential,
    "grid exponential": _grid,
    "grid square": _grid_square,
}
_YX, _XY = (0, 1, 2, 3), (1, 0, 3, 2)

OP = Op(
    name="box_corners",
    attributes=BoxCorners,
    infer=infer,
    reference=reference,
    variants=(Variant("each", build),),
    cases=(
        Case(("f32[1,29,4]",), BoxCorners("corners", _XY)),
        Case(("f32[2,13,9]",), BoxCorners("linear", (6, 5, 8, 7), (31.0, 17.0, 3.0, 5.0))),
        Case(("f32[1,7,18]", "f32[7,4]"), BoxCorners("linear", _XY, (2.0,) * 4), constants=(1,)),
        Case(("f32[3,11,4]", "f32[11,4]"), BoxCorners("exponential", _YX, (10, 10, 5, 5))),
        Case(("f32[2,5,7]", "f32[5,4]"), BoxCorners("grid exponential", _XY, (3, 5, 1, 1))),
        Case(("f32[1,31,5]", "f32[31,4]"), BoxCorners("grid square", _XY, (7, 7, 0.25, 0.25))),
    ),
)
