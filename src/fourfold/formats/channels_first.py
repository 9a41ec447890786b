"""Images of [N,C,H,W], rows of [N,C,L] and volumes, as graphs have them: with channels last.

Each layer over them stands between two transposes, which rewrites push together until they cancel.
"""

from __future__ import annotations

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.refusal import Unconvertible
from fourfold.op.window import Pair
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape

LARGEST = 2**20  # no stride, dilation, padding or filter of a real model comes near it


def require_images(nodes: OperatorNodes, value: str) -> None:
    """Refuses rows, volumes and what has no channels."""
    if nodes.type_of(value).rank != 4:
        raise Unconvertible(f"its input is {nodes.type_of(value)}, which is no batch of images")


def to_channels_last(nodes: OperatorNodes, value: str, part: str = "image") -> str:
    """[N,C,...] as [N,...,C]."""
    rank = nodes.type_of(value).rank
    if rank < 3:
        raise ValueError(f"{nodes.type_of(value)} is not an image")
    return nodes.transposed(value, (0, *range(2, rank), 1), part)


def to_channels_first(nodes: OperatorNodes, image: str) -> str:
    """[N,...,C] as [N,C,...]."""
    return nodes.transposed(image, _to_first(nodes.type_of(image).rank), "planes")


def give_channels_first(nodes: OperatorNodes, image: str, output: int = 0) -> None:
    """The same as an output."""
    order = Transpose(_to_first(nodes.type_of(image).rank))
    nodes.give("transpose", image, attributes=order, output=output)


def _to_first(rank: int) -> Shape:
    return 0, rank - 1, *range(1, rank - 1)


def with_line(nodes: OperatorNodes, image: str) -> str:
    """A row of [N,L,C] as an image of one line, [N,1,L,C]; images as they are."""
    shape = nodes.type_of(image).shape
    if len(shape) != 3:
        return image
    return nodes.reshaped(image, (shape[0], 1, *shape[1:]), "image_line")


def without_line(nodes: OperatorNodes, image: str, rank: int) -> str:
    """The way back to a row, if it was one."""
    if rank != 3:
        return image
    images, _, length, channels = nodes.type_of(image).shape
    return nodes.reshaped(image, (images, length, channels), "line")


def as_pair(numbers: Shape) -> Pair:
    """Numbers of an image; those of a row have a one before them."""
    first, second = (1, *numbers)[-2:]
    return first, second


def check_window(*sizes: int) -> None:
    """Filters, strides and dilations must be possible."""
    if min(sizes, default=1) < 1 or max(sizes, default=1) > LARGEST:
        raise ValueError(f"a filter, stride or dilation among {sizes} is not possible")


def check_padding(*sizes: int) -> None:
    if min(sizes, default=0) < 0 or max(sizes, default=0) > LARGEST:
        raise ValueError(f"padding {sizes} is not possible")
