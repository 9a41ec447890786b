"""Checks that a changed batch size passes through the model image by image.

Most files have a batch of one written into their reshapes and slices. When the caller changes only
the leading size of inputs, these follow it, so that every image gets the result it would get alone.
An operator that mixes the images of a batch, or keeps only one, is named in an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fourfold.errors import InputError
from fourfold.formats.budget import MAX_RANK
from fourfold.formats.builder import GraphBuilder
from fourfold.graph import Node
from fourfold.types import Shape, TensorType


def batch_growth(own: Shape, now: Shape) -> int:
    """Return the growth factor of the leading size; 1 if it did not grow, or others changed."""
    is_multiple = own and own[0] and own[1:] == now[1:] and now[0] % own[0] == 0
    return now[0] // own[0] if is_multiple else 1


def axis_of_batch(own: Shape, now: Shape, factor: int) -> int | None:
    """Return the axis along which a value has grown with the batch; None if it has not."""
    if len(own) != len(now) or own == now:
        return None
    changed = [axis for axis, (old, new) in enumerate(zip(own, now, strict=True)) if old != new]
    axis, *others = changed
    return axis if not others and own[axis] * factor == now[axis] else None


@dataclass(frozen=True)
class OwnTypes:
    """The types that the file declares for the inputs and outputs of an operator, by value."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]


def check_batch(builder: GraphBuilder, title: str, own: OwnTypes, nodes: Sequence[Node]) -> None:
    """Raise InputError if an operator does not treat each image of a batch separately.

    `nodes` are the nodes that the operator was converted to.
    """
    if builder.batch_factor == 1:
        return
    axes = _batch_axes(builder, own.inputs)
    for name, node in _reads(nodes):
        if name in axes and _works_along(node.attributes, axes[name]):
            raise _mixes(title, "it works along the batch axis")
    for name, type in own.outputs.items():
        now = builder.types[name]
        if not axes or name in builder.constants or type.rank != now.rank:
            continue
        if axis_of_batch(type.shape, now.shape, builder.batch_factor) is None:
            raise _mixes(title, f"its result is {now}, and {type} without the batch")


def _batch_axes(builder: GraphBuilder, inputs: Mapping[str, TensorType]) -> dict[str, int]:
    """Return the values that grow with the batch, each with its batch axis."""
    axes = {
        name: axis_of_batch(own.shape, builder.types[name].shape, builder.batch_factor)
        for name, own in inputs.items()
        if name not in builder.constants
    }
    return {name: axis for name, axis in axes.items() if axis is not None}


def _reads(nodes: Sequence[Node]) -> Iterator[tuple[str | None, Node]]:
    """Yield the data inputs of nodes: all inputs of a concat, else the first one."""
    for node in nodes:
        for name in node.inputs if node.op == "concat" else node.inputs[:1]:
            yield name, node


def _works_along(attributes: object, axis: int) -> bool:
    along = getattr(attributes, "axis", None)
    return along == axis or axis in (getattr(attributes, "axes", None) or ())


def _mixes(title: str, why: str) -> InputError:
    fix = "run the images one at a time, or export the model with that batch"
    return InputError(f"{title} does not treat each image of a batch separately", why, fix)


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
