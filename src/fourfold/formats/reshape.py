"""Computes the result shape of a reshape, whose target follows a batch changed by the caller."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fourfold.formats.batch import axis_of_batch
from fourfold.formats.budget import MAX_RANK
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class Reshaped:
    """The result shape of a reshape, and the adapted target, which may contain -1."""

    shape: Shape
    target: Shape


def reshape_literally(x: TensorType, target: Shape) -> Reshaped:
    """Apply a reshape as the file has it, with -1 filled in."""
    _check_target(target)
    return Reshaped(_checked(_fill(x.elements, target), x, target), target)


def reshape_batch(x: TensorType, own: Shape, target: Shape, factor: int) -> Reshaped:
    """Apply a reshape with a constant target, written for an input of shape `own`.

    The batch axis follows a batch that was changed by `factor`. If only the batch was changed, it
    stays in its own axis: a target of [1, -1, 4] for one image becomes [3, -1, 4] for three.
    """
    _check_target(target)
    axis, filled = axis_of_batch(own, x.shape, factor), _fill(x.elements, target)
    if axis is None and filled is None and x.shape[1:] == own[1:]:
        axis = 0  # only the leading size differs
    if axis is None:
        return reshape_literally(x, target)
    before = _checked(_fill(math.prod(own), target), x, target)
    is_separate = len(before) > axis and before[:axis] == own[:axis]
    size, remainder = divmod(before[axis] * x.shape[axis], own[axis]) if is_separate else (0, 1)
    if remainder:
        _checked(filled, x, target)
        raise ValueError(f"axis {axis} of {x} does not stay separate in {list(target)}")
    target_size = -1 if target[axis] == -1 else size
    changed = (*target[:axis], target_size, *target[axis + 1 :])
    return Reshaped((*before[:axis], size, *before[axis + 1 :]), changed)


def _check_target(target: Shape) -> None:
    if target.count(-1) > 1 or min(target, default=0) < -1 or len(target) > MAX_RANK:
        raise ValueError(f"shape {list(target)} is not valid")


def _fill(elements: int, target: Shape) -> Shape | None:
    """Return the target with -1 filled in; None if the number of elements does not match."""
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
