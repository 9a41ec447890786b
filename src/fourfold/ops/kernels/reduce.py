"""Reductions: a work-item, or a group that shares the work, walks over the reduced axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from fourfold.codegen.broadcast import mask_beyond
from fourfold.codegen.combine import group_combine, team_ids
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, widen
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.view import View
from fourfold.ops.base import Variant
from fourfold.ops.base.rules import Reduce
from fourfold.ops.kernels.grid import plain_grid

Combine = Callable[[Expression, Expression], Expression]
Finish = Callable[[Expression, int], Expression]
Load = Callable[[Expression, Expression], Expression]  # loads four channels by pixel and slice
Reader = Callable[[NodeContext, Kernel, View], Load]
MAX_GROUP_ITEMS = 256
WARP = 32
PARALLEL_TOTALS = 4


def reduce_variants(
    combine: Combine,
    start: float,
    finish: Finish = lambda total, count: total,
    reader: Reader | None = None,
) -> tuple[Variant, ...]:
    """Return the variant of a reduction.

    `start` is the neutral element, `finish(total, count)` is applied last. `reader` loads the
    reduced values if they are not the first input unchanged.
    """

    def build(context: NodeContext) -> None:
        _build(context, combine, start, finish, reader)

    return (Variant("reduce", build, _refuses),)


def _refuses(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, Reduce)
    return None if context.attributes.keep_dims else "it is supported only with keep_dims"


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
    neutral = start_value(view.kind, start)
    for pixel, slice_, lane in shared_grid(context, kernel, target, split):
        at = target.coordinates(pixel) if rank else []
        total = kernel.variable(neutral, "total")
        if context.device.is_cpu and axes == tuple(range(rank - 1 - len(axes), rank - 1)):
            run = _run_of_pixels(view, axes, at)
            add_run(kernel, total, combine, run.length, run.values(load, slice_))
            target.store(pixel, slice_, finish(total, count))
            continue
        with walk(kernel, view, [axis for axis in axes if axis < rank - 1], lane, split) as inner:
            coordinates = [inner.get(axis, at[axis]) for axis in range(rank - 1)]
            source_pixel = kernel.let(view.pixel(coordinates), "from")
            view.known[source_pixel] = coordinates
            if rank - 1 not in axes:
                kernel.set(total, combine(total, load(source_pixel, slice_)))
            else:
                with kernel.loop(view.slices, title="slice") as each:
                    value = load(source_pixel, each)
                    if start != 0 or reader is not None:
                        # Lanes beyond the last channel hold zeros, which is only right for sums of
                        # the plain input.
                        value = mask_beyond(view, value, each, neutral)
                    kernel.set(total, combine(total, value))
        group_combine(kernel, [total], split, combine)
        result: Expression = total
        if rank - 1 in axes:
            result = reduce_lanes(total, combine)
        with kernel.when(lane.equals(0)):
            target.store(pixel, slice_, finish(result, count))


class _Run(NamedTuple):
    """Neighboring pixels: how many, and a function that returns each by its number."""

    length: Expression
    at: Callable[[Expression], Expression]

    def values(self, load: Load, slice_: Expression) -> Callable[[Expression], Expression]:
        """Return a function that loads four channels of pixel number `step`."""
        return lambda step: load(self.at(step), slice_)


def _run_of_pixels(view: View, axes: Sequence[int], at: Sequence[Expression]) -> _Run:
    """Return the run of all pixels along the last axes before the channels.

    `at` has the coordinates on the other axes.
    """
    kernel, length = view.kernel, const(1)
    for axis in axes:
        length = length * view.axis(axis)
    others = [
        const(0) if axis in axes else pixel for axis, pixel in enumerate(at[: view.type.rank - 1])
    ]
    first = kernel.let(view.pixel(others), "first")

    def pixel_at(step: Expression) -> Expression:
        pixel, coordinates, remainder = kernel.let(first + step, "from"), list(others), step
        for axis in reversed(axes):
            coordinates[axis], remainder = remainder % view.axis(axis), remainder // view.axis(axis)
        view.known[pixel] = coordinates
        return pixel

    return _Run(kernel.let(length, "length"), pixel_at)


def add_run(
    kernel: Kernel,
    total: Variable,
    combine: Combine,
    length: Expression,
    value: Callable[[Expression], Expression],
) -> None:
    """Combine `length` values into a variable with several independent partial results.

    On a CPU a single sum would wait for itself at each step.
    """
    others = [kernel.variable(total, "other") for _ in range(PARALLEL_TOTALS - 1)]
    unrolled_length = kernel.let(length // PARALLEL_TOTALS * PARALLEL_TOTALS, "whole")
    with kernel.loop(unrolled_length, 0, PARALLEL_TOTALS, title="r") as step:
        for number, sum_ in enumerate((total, *others)):
            kernel.set(sum_, combine(sum_, value(step + number)))
    for other in others:
        kernel.set(total, combine(total, other))
    with kernel.loop(length, unrolled_length, title="r") as step:
        kernel.set(total, combine(total, value(step)))


def split_for(context: NodeContext, length: int) -> int:
    """Return how many work-items share one result.

    One on a CPU or without local memory; more on a GPU if there is much to reduce.
    """
    if context.device.is_cpu or not context.device.local_memory:
        return 1
    split = 1
    while split < MAX_GROUP_ITEMS and split < length and split * 2 <= context.device.max_work_group:
        split *= 2
    return split if split >= WARP or split * 4 <= length else max(1, split // 2)


def shared_grid(
    context: NodeContext, kernel: Kernel, target: View, split: int
) -> Iterator[tuple[Expression, Expression, Expression]]:
    """Yield (pixel, slice, lane) once, for a group of `split` work-items per four channels."""
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
    """Loop over the axes. With several lanes, each takes every `split`-th step of one flat loop."""
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
        coordinates: dict[int, Expression] = {}
        remainder: Expression = step
        for axis in reversed(axes):
            coordinates[axis] = kernel.let(remainder % view.axis(axis), "r")
            remainder = kernel.let(remainder // view.axis(axis), "rest")
        yield coordinates


def start_value(kind: str, number: float) -> Expression:
    """Return a start value in every lane. Infinity becomes the limit of an int."""
    if kind == "int" and number in (float("inf"), float("-inf")):
        number = 2**31 - 1 if number > 0 else -(2**31)
    return const(number if kind != "int" else int(number), kind, 4)


def reduce_lanes(total: Expression, combine: Combine) -> Expression:
    """Combine the four lanes of a vector and return the result in the first lane of a new one."""
    one = combine(combine(total.lane(0), total.lane(1)), combine(total.lane(2), total.lane(3)))
    return widen(one, 4)
