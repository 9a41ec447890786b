"""Reductions: a work-item, or a group of them that share the work, walks over the axes that go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from fourfold.kernel.broadcast import mask_beyond
from fourfold.kernel.combine import group_combine, team_ids
from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, widen
from fourfold.kernel.kernel import Kernel, Variable
from fourfold.kernel.view import View
from fourfold.kernels.grid import plain_grid
from fourfold.op import Variant
from fourfold.op.rules import Reduce

Combine = Callable[[Expression, Expression], Expression]
Finish = Callable[[Expression, int], Expression]
Load = Callable[[Expression, Expression], Expression]  # four channels by pixel and slice
Reader = Callable[[NodeContext, Kernel, View], Load]
GROUP = 256
WARP = 32
SIDE_BY_SIDE = 4


def reduces(
    combine: Combine,
    start: float,
    finish: Finish = lambda total, count: total,
    reader: Reader | None = None,
) -> tuple[Variant, ...]:
    """The variant of a reduction: `start` is neutral, `finish(total, count)` comes last, and
    `reader` gives what is reduced, where that is not the first input as it is.
    """

    def build(context: NodeContext) -> None:
        _build(context, combine, start, finish, reader)

    return (Variant("reduce", build, _refuses),)


def _refuses(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, Reduce)
    return None if context.attributes.keep_dims else "axes that go must first become ones"


def _build(
    context: NodeContext, combine: Combine, start: float, finish: Finish, reader: Reader | None
) -> None:
    assert isinstance(context.attributes, Reduce)
    axes = context.attributes.axes
    source, rank = context.input, context.input.rank
    count = 1
    for axis in axes:
        count *= source.shape[axis]
    split = split_for(context, count if rank - 1 not in axes else count // max(1, source.channels))
    kernel = context.kernel(context.node.op + ("_split" if split > 1 else ""), sums=True)
    view, target = context.read(kernel, 0), context.write(kernel)
    load = view.load if reader is None else reader(context, kernel, view)
    neutral = least(view.kind, start)
    for pixel, slice_, lane in shared_grid(context, kernel, target, split):
        at = target.coordinates(pixel) if rank else []
        total = kernel.variable(neutral, "total")
        if context.device.is_cpu and axes == tuple(range(rank - 1 - len(axes), rank - 1)):
            run = _run_of_pixels(view, axes, at)
            add_run(kernel, total, combine, run.length, run.values(load, slice_))
            target.store(pixel, slice_, finish(total, count))
            continue
        with walk(kernel, view, [axis for axis in axes if axis < rank - 1], lane, split) as inner:
            there = [inner.get(axis, at[axis]) for axis in range(rank - 1)]
            place = kernel.let(view.pixel(there), "from")
            view.known[place] = there
            if rank - 1 not in axes:
                kernel.set(total, combine(total, load(place, slice_)))
            else:
                with kernel.loop(view.slices, title="slice") as each:
                    value = load(place, each)
                    if start != 0 or reader is not None:
                        # Lanes beyond the last channel hold zeros: right for sums of what is read,
                        # wrong for others.
                        value = mask_beyond(view, value, each, neutral)
                    kernel.set(total, combine(total, value))
        group_combine(kernel, [total], split, combine)
        result: Expression = total
        if rank - 1 in axes:
            result = across(total, combine)
        with kernel.when(lane.equals(0)):
            target.store(pixel, slice_, finish(result, count))


class _Run(NamedTuple):
    """Neighbouring pixels: how many, and where each is."""

    length: Expression
    at: Callable[[Expression], Expression]

    def values(self, load: Load, slice_: Expression) -> Callable[[Expression], Expression]:
        """Four channels of each."""
        return lambda step: load(self.at(step), slice_)


def _run_of_pixels(view: View, axes: Sequence[int], at: Sequence[Expression]) -> _Run:
    """All pixels along the last axes before the channels; `at` has the coordinates of others."""
    kernel, length = view.kernel, const(1)
    for axis in axes:
        length = length * view.axis(axis)
    others = [
        const(0) if axis in axes else place for axis, place in enumerate(at[: view.type.rank - 1])
    ]
    first = kernel.let(view.pixel(others), "first")

    def place_of(step: Expression) -> Expression:
        place, there, rest = kernel.let(first + step, "from"), list(others), step
        for axis in reversed(axes):
            there[axis], rest = rest % view.axis(axis), rest // view.axis(axis)
        view.known[place] = there
        return place

    return _Run(kernel.let(length, "length"), place_of)


def add_run(
    kernel: Kernel,
    total: Variable,
    combine: Combine,
    length: Expression,
    value: Callable[[Expression], Expression],
) -> None:
    """Combine so many values into a variable, several side by side: on a CPU each sum waits for
    itself.
    """
    others = [kernel.variable(total, "other") for _ in range(SIDE_BY_SIDE - 1)]
    whole = kernel.let(length // SIDE_BY_SIDE * SIDE_BY_SIDE, "whole")
    with kernel.loop(whole, 0, SIDE_BY_SIDE, title="r") as step:
        for number, sum_ in enumerate((total, *others)):
            kernel.set(sum_, combine(sum_, value(step + number)))
    for other in others:
        kernel.set(total, combine(total, other))
    with kernel.loop(length, whole, title="r") as step:
        kernel.set(total, combine(total, value(step)))


def split_for(context: NodeContext, length: int) -> int:
    """How many work-items share one result: one on a CPU or without memory that they share, more on
    a GPU where there is much to walk.
    """
    if context.device.is_cpu or not context.device.local_memory:
        return 1
    split = 1
    while split < GROUP and split < length and split * 2 <= context.device.max_work_group:
        split *= 2
    return split if split >= WARP or split * 4 <= length else max(1, split // 2)


def shared_grid(
    context: NodeContext, kernel: Kernel, target: View, split: int
) -> Iterator[tuple[Expression, Expression, Expression]]:
    """Yields (pixel, slice, lane) once: a group of `split` work-items for each four channels."""
    if split == 1:
        for pixel, slice_ in plain_grid(kernel, context.device, target):
            yield pixel, slice_, const(0)
        return
    item, lane = team_ids(kernel, context.device, target.type.pixels * target.type.slices, split)
    pixels = target.pixels
    yield kernel.let(item % pixels, "pixel"), kernel.let(item // pixels, "slice"), lane


@contextmanager
def walk(
    kernel: Kernel, view: View, axes: list[int], lane: Expression, split: int
) -> Iterator[dict[int, Expression]]:
    """Loops over the axes; with several lanes, each takes every `split`-th step of one flat
    loop.
    """
    if split == 1:
        with ExitStack() as stack:
            yield {
                axis: stack.enter_context(kernel.loop(view.axis(axis), title="r")) for axis in axes
            }
        return
    length: Expression = const(1)
    for axis in axes:
        length = length * view.axis(axis)
    with kernel.loop(kernel.let(length, "length"), lane, split, title="r") as step:
        places: dict[int, Expression] = {}
        rest: Expression = step
        for axis in reversed(axes):
            places[axis] = kernel.let(rest % view.axis(axis), "r")
            rest = kernel.let(rest // view.axis(axis), "rest")
        yield places


def least(kind: str, number: float) -> Expression:
    """A number to start from, in every lane; integers have no infinity."""
    if kind == "int" and number in (float("inf"), float("-inf")):
        number = 2**31 - 1 if number > 0 else -(2**31)
    return const(number if kind != "int" else int(number), kind, 4)


def across(total: Expression, combine: Combine) -> Expression:
    """The four lanes of a vector combined, in the first lane of a new one."""
    one = combine(combine(total.lane(0), total.lane(1)), combine(total.lane(2), total.lane(3)))
    return widen(one, 4)
