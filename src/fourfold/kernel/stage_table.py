"""The table that a persistent kernel walks: a row of numbers for each stage.

A row begins with HEAD numbers: the function that the stage calls, its virtual groups, how they are
given out, groups along x and y, how they are given out once more, and which bytes of the constants
a later stage streams: the first, and how many. Then come the buffer and the offset of each pointer,
then sizes. Groups share a stage, or claim chunks of it; that decides what stands in the two places
for how.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from fourfold.kernel.context import Packed
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.stage import Stage
from fourfold.kernel.statement import LocalArray
from fourfold.plan import CONSTANTS, BufferUse

HEAD = 8
ARRIVES, AWAITS = 1, 2  # bits of a row: a group says that it has come so far; it waits for all
CHUNKS = 16  # how finely each part of a stage is cut where groups claim it
LARGEST = 2**31 - 1  # that a row holds
_BYTES = {"float": 4, "int": 4, "uint": 4, "bool": 4, "half": 2}
_VECTOR = 16  # bytes: local memory is given out in such


class ConstantSpan(NamedTuple):
    """Some bytes of the constants."""

    start: int = 0
    bytes: int = 0


class Distribution(NamedTuple):
    """How the virtual groups of a stage are given out: the two numbers of its row."""

    first: int
    second: int


def is_too_large(stage: Stage) -> bool:
    """Whether a number of its row would not fit."""
    return max([prod(stage.counts), *(use.offset for use in stage.buffers)]) > LARGEST


def row_stride(kernels: Sequence[Kernel]) -> int:
    """Numbers in a row of the table."""
    return -(-(HEAD + max(map(row_numbers, kernels))) // 4) * 4


def row_numbers(kernel: Kernel) -> int:
    """What a row holds for a kernel, beside its head."""
    return 2 * len(kernel.buffers) + len(kernel.sizes)


def fill_table(
    stages: Sequence[Stage],
    functions: Sequence[int],
    distributions: Sequence[Distribution],
    stride: int,
    ahead: Sequence[ConstantSpan] = (),
) -> np.ndarray:
    """The rows of some stages; `functions` are the numbers of what they call, and `ahead` is what
    each has fetched for later ones.
    """
    table = np.zeros((len(stages), stride), np.int32)
    spans = ahead or [ConstantSpan()] * len(stages)
    every = zip(table, stages, functions, distributions, spans, strict=True)
    for row, stage, number, how, span in every:
        counts = stage.counts
        numbers = [number, prod(counts), how.first, counts[0], counts[1], how.second, *span]
        for argument in stage.arguments:
            if isinstance(argument, BufferUse):
                numbers += [argument.buffer, argument.offset]
            else:
                numbers.append(argument)
        row[: len(numbers)] = numbers
    return table


def streamed_ahead(stages: Sequence[Stage], distance: int) -> list[ConstantSpan]:
    """What each stage has fetched: the constants that the one so many behind it streams."""
    later = [_streamed(stage) for stage in stages[distance:]]
    return [*later, *[ConstantSpan()] * (len(stages) - len(later))]


def _streamed(stage: Stage) -> ConstantSpan:
    """The longest constant that a stage reads once a run, whole."""
    found = [ConstantSpan()]
    for argument, use in zip(stage.kernel.buffers, stage.buffers, strict=True):
        memory, pointer = argument.memory, argument.pointer
        if pointer.name in stage.kernel.streamed and isinstance(memory, Packed):
            assert use.buffer == CONSTANTS, "a persistent kernel finds all constants in one buffer"
            found.append(ConstantSpan(use.offset * pointer.dtype.size, memory.array.nbytes))
    return max(found, key=lambda span: span.bytes)


def claimed(stage: Stage, parts: int) -> Distribution:
    """How many virtual groups a chunk has, and along which axis a stage is cut into parts."""
    size = max(1, -(-prod(stage.counts) // (CHUNKS * parts)))
    return Distribution(size, cut_axis(stage.counts, parts))


def cut_axis(counts: Sequence[int], parts: int) -> int:
    """The axis along which a stage is cut into parts: the first that is long enough, else the
    longest. Pixels come before channels, and weights are cheaper to share than values.
    """
    enough = [axis for axis, count in enumerate(counts) if count >= parts > 1]
    return enough[0] if enough else max(range(len(counts)), key=lambda axis: counts[axis])


def shared(stages: Sequence[Stage], groups: int) -> Iterator[Distribution]:
    """For each stage what to add to a group's number for that of its first virtual group, and when
    groups wait for each other: only if they have arrived, so not before the first stage.

    After a grid barrier the first group gets the first one. Without one, dealing goes on where it
    ended: who got less of a stage begins with the next.
    """
    dealt, before, arrived = 0, False, False
    for stage in stages:
        awaits = stage.awaits and arrived
        dealt = 0 if awaits and before else dealt
        yield Distribution(-dealt % groups, stage.arrives * ARRIVES + awaits * AWAITS)
        dealt, before = dealt + prod(stage.counts), stage.arrives
        arrived = before or (arrived and not awaits)


def count_barriers(distributions: Sequence[Distribution]) -> tuple[int, int]:
    """How many grid barriers there are, and how many of them a stage runs across."""
    flags = [how.second for how in distributions]
    waits = [before for before, bits in pairwise(flags) if bits & AWAITS]
    return len(waits), sum(not before & ARRIVES for before in waits)


def local_memory(kernels: Sequence[Kernel], persistent: int, buffers: int = 0) -> int:
    """Bytes of local memory of a work-group.

    A `persistent` one of so many work-items runs smaller groups side by side, and has two rows of
    its table there, too, and where its buffers begin.
    """
    most = 0
    for kernel in kernels:
        arrays = [item for item in kernel.body if isinstance(item, LocalArray)]
        beside = max(persistent // kernel.local_items, 1)
        most = max(most, beside * sum(array_vectors(array) * _VECTOR for array in arrays))
    if not persistent:
        return most
    beside = 2 * 4 * row_stride(kernels) + 8 * buffers
    return most + -(-beside // _VECTOR) * _VECTOR


def array_vectors(array: LocalArray) -> int:
    """A local array in whole vectors of sixteen bytes."""
    return -(-array.size * array.width * _BYTES[array.kind] // _VECTOR)
