"""Combining what the work-items of a group hold, through local memory."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.kernel.expression import Expression, load
from fourfold.kernel.kernel import Kernel, Variable


def group_combine(
    kernel: Kernel,
    values: list[Variable],
    lanes: int,
    axis: int,
    row: Expression,
    combine: Callable[[Expression, Expression], Expression],
) -> None:
    """Combine each variable over the `lanes` work-items along a local axis; all get the result.

    `row` tells rows of lanes in one group apart; a group of one lane needs nothing.
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
    step = lanes // 2
    while step >= 1:
        with kernel.when(lane < step):
            for place in places:
                mine = load(shared, place + lane, kind, width)
                other = load(shared, place + lane + step, kind, width)
                kernel.store(shared, place + lane, combine(mine, other))
        kernel.barrier()
        step //= 2
    for place, value in zip(places, values, strict=True):
        kernel.set(value, load(shared, place, kind, width))
    kernel.barrier()
