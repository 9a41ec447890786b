"""Combining what the work-items of a group hold, through local memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from fourfold.kernel.expression import Expression, load
from fourfold.kernel.kernel import Kernel, Variable

FEW = 8  # lanes whose numbers each of them can as well read itself


def group_combine(
    kernel: Kernel,
    values: list[Variable],
    lanes: int,
    axis: int,
    row: Expression,
    combine: Callable[[Expression, Expression], Expression],
) -> None:
    """Combine each variable over the `lanes` work-items along a local axis; all get the result.

    `row` tells rows of lanes in one group apart; a group of one lane needs nothing. What many lanes
    hold is combined by some of them first, each its share, and then by all: to read a few numbers
    takes less time than to meet once more.
    """
    if lanes == 1:
        return
    rows = kernel.local_items // lanes
    kind, width = values[0].kind, values[0].width
    shared = kernel.local_array("shared", kind, width, lanes * rows * len(values))
    lane = kernel.local_id(axis)
    places = [kernel.let((row + n * rows) * lanes, "shelf") for n in range(len(values))]
    for place, value in zip(places, values, strict=True):
        kernel.store(shared, place + lane, value)
    kernel.barrier()
    left = lanes
    if lanes > FEW:
        left = 1 << (lanes.bit_length() // 2)
        with kernel.when(lane < left):
            for place in places:
                share = [place + lane + start for start in range(0, lanes, left)]
                total = reduce(combine, [load(shared, at, kind, width) for at in share])
                kernel.store(shared, place + lane, total)
        kernel.barrier()
    for place, value in zip(places, values, strict=True):
        held = [load(shared, place + number, kind, width) for number in range(left)]
        kernel.set(value, reduce(combine, held))
    kernel.barrier()
