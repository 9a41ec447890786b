"""Normalizes axes, and converts images [N,C,H,W], rows and volumes to channels-last and back.

Model files may count axes from the end. Every layer over channels-first tensors is placed between
two transposes; graph rewrites cancel adjacent ones.
"""

from __future__ import annotations

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import NONE
from fourfold.ops.base.window import Pair
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape


def axis_of(axis: int, rank: int) -> int:
    """Return the axis as a non-negative number."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not one of {rank} axes")
    return axis % rank


def axes_of(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return non-negative axes in ascending order; an axis given twice is an error."""
    normalized = tuple(sorted({axis_of(axis, rank) for axis in axes}))
    if len(normalized) != len(axes):
        raise ValueError(f"axes {list(axes)} name one axis twice")
    return normalized


def last_order(axis: int, rank: int) -> Shape:
    """Return the permutation that moves an axis to the end and keeps the order of the others."""
    return (*(other for other in range(rank) if other != axis), axis)


def inverse_order(order: Shape) -> Shape:
    """Return the inverse of a permutation."""
    return tuple(order.index(axis) for axis in range(len(order)))


def give_along(
    nodes: OperatorNodes, op: str, value: str, axis: int, attributes: object = NONE
) -> None:
    """Write the output of an op along an axis, which is transposed to the end if needed."""
    order = last_order(axis, nodes.type_of(value).rank)
    last = nodes.transposed(value, order, "last")
    if last == value:
        nodes.give(op, value, attributes=attributes)
        return
    result = nodes.add(op, last, attributes=attributes, part="result")
    nodes.give("transpose", result, attributes=Transpose(inverse_order(order)))


MAX_WINDOW_SIZE = 2**20  # far above any stride, dilation, padding or filter size of a real model


def require_images(nodes: OperatorNodes, value: str) -> None:
    """Refuse rows, volumes and tensors without channels."""
    if nodes.type_of(value).rank != 4:
        raise Unconvertible(f"its input is {nodes.type_of(value)}, not a batch of images")


def to_channels_last(nodes: OperatorNodes, value: str, part: str = "image") -> str:
    """Return [N,C,...] as [N,...,C]."""
    rank = nodes.type_of(value).rank
    if rank < 3:
        raise ValueError(f"{nodes.type_of(value)} is not an image")
    return nodes.transposed(value, (0, *range(2, rank), 1), part)


def to_channels_first(nodes: OperatorNodes, image: str) -> str:
    """Return [N,...,C] as [N,C,...]."""
    return nodes.transposed(image, _to_first(nodes.type_of(image).rank), "planes")


def give_channels_first(nodes: OperatorNodes, image: str, output: int = 0) -> None:
    """Write [N,...,C] as [N,C,...] to an output of the operator."""
    order = Transpose(_to_first(nodes.type_of(image).rank))
    nodes.give("transpose", image, attributes=order, output=output)


def _to_first(rank: int) -> Shape:
    return 0, rank - 1, *range(1, rank - 1)


def with_line(nodes: OperatorNodes, image: str) -> str:
    """Return a row [N,L,C] as an image with one line, [N,1,L,C]; images are returned unchanged."""
    shape = nodes.type_of(image).shape
    if len(shape) != 3:
        return image
    return nodes.reshaped(image, (shape[0], 1, *shape[1:]), "image_line")


def without_line(nodes: OperatorNodes, image: str, rank: int) -> str:
    """Undo `with_line` for a value that had rank 3."""
    if rank != 3:
        return image
    images, _, length, channels = nodes.type_of(image).shape
    return nodes.reshaped(image, (images, length, channels), "line")


def as_pair(numbers: Shape) -> Pair:
    """Return the sizes of an image as a pair; sizes of a row get a leading one."""
    first, second = (1, *numbers)[-2:]
    return first, second


def check_window(*sizes: int) -> None:
    """Raise ValueError if a filter, stride or dilation is out of range."""
    if min(sizes, default=1) < 1 or max(sizes, default=1) > MAX_WINDOW_SIZE:
        raise ValueError(f"a filter, stride or dilation among {sizes} is out of range")


def check_padding(*sizes: int) -> None:
    if min(sizes, default=0) < 0 or max(sizes, default=0) > MAX_WINDOW_SIZE:
        raise ValueError(f"padding {sizes} is out of range")
