"""Pooling: counts windows and selects the op for an average or a maximum."""

from __future__ import annotations

from dataclasses import replace

from fourfold.formats.axes import as_pair, check_padding, check_window, with_line, without_line
from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.ops.average_pool import AveragePool
from fourfold.ops.base.window import Padding, Pair, Pool2d, PoolAxes
from fourfold.ops.pad import Pad
from fourfold.types import Shape


def count_windows(size: int, reach: int, stride: int, padding: Pair, up: bool) -> int:
    """Return the number of windows along an axis.

    With `up`, the last one may extend past the end, unless it would start in the padding there.
    """
    space = size + sum(padding) - reach
    count = (-(-space // stride) if up else space // stride) + 1
    if count < 1:
        raise ValueError(f"a window of {reach} is larger than the padded {size + sum(padding)}")
    return count - (count > 1 and (count - 1) * stride >= size + padding[0])


def add_pool(
    nodes: OperatorNodes,
    image: str,
    attributes: PoolAxes,
    average: bool,
    counts_padding: bool = False,
) -> str:
    """Add a pool of [N,...,C].

    An average may count the padding, but never positions beyond it that a last window covers.
    """
    check_window(*attributes.filter, *attributes.stride, *attributes.dilation)
    check_padding(*attributes.before, *attributes.after)
    if average and counts_padding and _is_flat(attributes):
        image, attributes = _padded(nodes, image, attributes)
    x = nodes.type_of(image)
    plain = _plain(attributes, x.shape[1:-1])
    if plain is not None and x.dtype.is_float:
        name = "average_pool2d" if average else "max_pool2d"
        value = nodes.add(name, with_line(nodes, image), attributes=plain, part="pool")
        return without_line(nodes, value, x.rank)
    if not average:
        return nodes.add("max_pool", image, attributes=attributes, part="pool")
    wide = AveragePool(**vars(attributes), counts_padding=counts_padding)
    return nodes.add("average_pool", image, attributes=wide, part="pool")


def _is_flat(attributes: PoolAxes) -> bool:
    """Return True for a pool of an image or a row without dilation."""
    return attributes.axes <= 2 and max(attributes.dilation) == 1


def _padded(nodes: OperatorNodes, image: str, attributes: PoolAxes) -> tuple[str, PoolAxes]:
    """Pad the image with zeros instead of the pool, which is faster than counting padding."""
    if not any(attributes.before + attributes.after):
        return image, attributes
    pad = Pad((0, *attributes.before, 0), (0, *attributes.after, 0))
    none = (0,) * attributes.axes
    inner = replace(attributes, before=none, after=none)
    return nodes.add("pad", image, attributes=pad, part="padded"), inner


def _plain(attributes: PoolAxes, sizes: Shape) -> Pool2d | None:
    """Return the attributes as those of a 2-D pool; None if it cannot be expressed as one.

    Positions that the last window covers beyond the end become padding.
    """
    if not _is_flat(attributes):
        return None
    around = [(0, 0)] * (2 - attributes.axes)
    for axis in range(attributes.axes):
        reach = (attributes.size[axis] - 1) * attributes.stride[axis] + attributes.filter[axis]
        before = attributes.before[axis]
        around.append((before, max(reach - sizes[axis] - before, 0)))
    filter, stride = as_pair(attributes.filter), as_pair(attributes.stride)
    if any(max(pads) >= taps for pads, taps in zip(around, filter, strict=True)):
        return None
    return Pool2d(filter, stride, Padding(*around[0], *around[1]))
