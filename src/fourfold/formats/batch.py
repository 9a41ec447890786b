"""A batch that the caller has changed, and that must go through the model image by image.

Most files have a batch of one written into their reshapes and slices. Where nothing but the
leading size of inputs is changed, these follow it, so that every image gets what it would get
alone. What mixes the images of a batch, or keeps but one of them, is named in an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fourfold.errors import InputError
from fourfold.formats.builder import GraphBuilder
from fourfold.graph import Node
from fourfold.types import Shape, TensorType


def batch_growth(own: Shape, now: Shape) -> int:
    """By how much a leading size was multiplied; 1 where it was not, or not that alone."""
    whole = own and own[0] and own[1:] == now[1:] and now[0] % own[0] == 0
    return now[0] // own[0] if whole else 1


def axis_of_batch(own: Shape, now: Shape, factor: int) -> int | None:
    """The axis along which a value has grown with the batch; None where it has not."""
    if len(own) != len(now) or own == now:
        return None
    changed = [axis for axis, (old, new) in enumerate(zip(own, now, strict=True)) if old != new]
    axis, *others = changed
    return axis if not others and own[axis] * factor == now[axis] else None


@dataclass(frozen=True)
class OwnTypes:
    """The types that the file itself gives to what an operator reads and writes, by value."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]


def check_batch(builder: GraphBuilder, title: str, own: OwnTypes, nodes: Sequence[Node]) -> None:
    """Raises where an operator does not take the images of a batch each alone.

    `nodes` are what the operator became.
    """
    if builder.batch_factor == 1:
        return
    axes = _batch_axes(builder, own.inputs)
    for name, node in _reads(nodes):
        if name in axes and _works_along(node.attributes, axes[name]):
            raise _mixes(title, "it works along the axis of the batch")
    for name, type in own.outputs.items():
        now = builder.types[name]
        if not axes or name in builder.constants or type.rank != now.rank:
            continue
        if axis_of_batch(type.shape, now.shape, builder.batch_factor) is None:
            raise _mixes(title, f"it makes {now}, and {type} without a batch")


def _batch_axes(builder: GraphBuilder, inputs: Mapping[str, TensorType]) -> dict[str, int]:
    """The values that grow with the batch, each with the axis of that."""
    found = {
        name: axis_of_batch(own.shape, builder.types[name].shape, builder.batch_factor)
        for name, own in inputs.items()
        if name not in builder.constants
    }
    return {name: axis for name, axis in found.items() if axis is not None}


def _reads(nodes: Sequence[Node]) -> Iterator[tuple[str | None, Node]]:
    """What nodes read to compute with; behind the first input come weights, but for a concat."""
    for node in nodes:
        for name in node.inputs if node.op == "concat" else node.inputs[:1]:
            yield name, node


def _works_along(attributes: object, axis: int) -> bool:
    along = getattr(attributes, "axis", None)
    return along == axis or axis in (getattr(attributes, "axes", None) or ())


def _mixes(title: str, why: str) -> InputError:
    fix = "run the images one after the other, or export the model with that batch"
    return InputError(f"{title} does not take the images of a batch each alone", why, fix)
