"""Which shape a reshape gives, and how its target follows a batch that the caller has changed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fourfold.formats.batch import axis_of_batch
from fourfold.formats.budget import MAX_RANK
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class Reshaped:
    """The shape that a reshape gives, and the target (with its -1) that stands for it by now."""

    shape: Shape
    target: Shape


def reshape_literally(x: TensorType, target: Shape) -> Reshaped:
    """A reshape as the file has it, with its -1 filled in."""
    _check_target(target)
    return Reshaped(_checked(_fill(x.elements, target), x, target), target)


def reshape_batch(x: TensorType, own: Shape, target: Shape, factor: int) -> Reshaped:
    """A reshape whose target is a constant of the file, where an input of the shape `own` was
    meant: its axis of the batch follows a batch that was changed by `factor`.

    Where nothing but the batch was changed, it stays in an axis of its own even if the file would
    have it elsewhere: what is [1, -1, 4] for one image is [3, -1, 4] for three of them.
    """
    _check_target(target)
    axis, filled = axis_of_batch(own, x.shape, factor), _fill(x.elements, target)
    if axis is None and filled is None and x.shape[1:] == own[1:]:
        axis = 0  # the leading size alone is another one
    if axis is None:
        return reshape_literally(x, target)
    before = _checked(_fill(math.prod(own), target), x, target)
    apart = len(before) > axis and before[:axis] == own[:axis]
    size, rest = divmod(before[axis] * x.shape[axis], own[axis]) if apart else (0, 1)
    if rest:
        _checked(filled, x, target)
        raise ValueError(f"axis {axis} of {x} does not stay apart in {list(target)}")
    asked = -1 if target[axis] == -1 else size
    changed = (*target[:axis], asked, *target[axis + 1 :])
    return Reshaped((*before[:axis], size, *before[axis + 1 :]), changed)


def _check_target(target: Shape) -> None:
    if target.count(-1) > 1 or min(target, default=0) < -1 or len(target) > MAX_RANK:
        raise ValueError(f"shape {list(target)} is not possible")


def _fill(elements: int, target: Shape) -> Shape | None:
    """The target with its -1 filled in; None where it does not have so many elements."""
    others = math.prod(size for size in target if size != -1)
    if -1 not in target:
        return target if others == elements else None
    if others == 0 or elements % others:
        return None
    return tuple(elements // others if size == -1 else size for size in target)


def _checked(shape: Shape | None, x: TensorType, target: Shape) -> Shape:
    if shape is None:
        raise ValueError(f"{x} has {x.elements} elements, which do not fill {list(target)}")
    return shape
