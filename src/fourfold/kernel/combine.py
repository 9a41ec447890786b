"""Combining what the work-items of a group hold, through local memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from fourfold.kernel.expression import Expression, Pointer, load
from fourfold.kernel.kernel import Kernel, Variable

FEW = 8  # lanes whose numbers each of them can as well read itself


Combine = Callable[[Expression, Expression], Expression]


def group_combine(
    kernel: Kernel,
    values: list[Variable],
    lanes: int,
    axis: int,
    row: Expression,
    combine: Combine,
) -> None:
    """Combine each variable over the `lanes` work-items along a local axis; all get the result.

    `row` tells rows of lanes in one group apart; a group of one lane needs nothing.
    """
    if lanes == 1:
        return
    rows = kernel.local_items // lanes
    kind, width = values[0].kind, values[0].width
    shared = kernel.local_array("shared", kind, width, lanes * rows * len(values))
    shelves = [kernel.let((row + n * rows) * lanes, "shelf") for n in range(len(values))]
    pairs = list(zip(shelves, values, strict=True))
    combine_lanes(kernel, shared, pairs, kernel.local_id(axis), lanes, combine)


def combine_lanes(
    kernel: Kernel,
    shared: Pointer,
    values: list[tuple[Expression, Variable]],
    lane: Expression,
    lanes: int,
    combine: Combine,
) -> None:
    """Combine each variable over so many lanes, by what lies at its place in local memory.

    What many lanes hold is combined by some of them first, each its share, and then by all: to read
    a few numbers takes less time than to meet once more.
    """
    kind, width = values[0][1].kind, values[0][1].width
    for place, value in values:
        kernel.store(shared, place + lane, value)
    kernel.barrier()
    left = lanes
    if lanes > FEW:
        left = 1 << (lanes.bit_length() // 2)
        with kernel.when(lane < left):
            for place, _ in values:
                share = [place + lane + start for start in range(0, lanes, left)]
                total = reduce(combine, [load(shared, at, kind, width) for at in share])
                kernel.store(shared, place + lane, total)
        kernel.barrier()
    for place, value in values:
        held = [load(shared, place + number, kind, width) for number in range(left)]
        kernel.set(value, reduce(combine, held))
    kernel.barrier()
