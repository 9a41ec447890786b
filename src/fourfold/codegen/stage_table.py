"""The table that a persistent kernel walks: a row of numbers per stage.

A row begins with HEAD numbers: the function that the stage calls, its virtual groups, the first
number of its distribution, groups along x and y, the second number of its distribution, and the
span of constants that a later stage streams: start and length in bytes. Then come the buffer and
offset of each pointer, then sizes. Groups share a stage or claim chunks of it; that decides the
meaning of the two distribution numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from fourfold.codegen.context import Packed
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.stage import Stage
from fourfold.codegen.statement import LocalArray
from fourfold.plan import CONSTANTS, BufferUse

HEAD = 8
ARRIVES, AWAITS = 1, 2  # bits of a row: groups arrive at a grid barrier; groups wait at one
CHUNKS = 16  # chunks per part of a stage, if groups claim them
MAX_TABLE_NUMBER = 2**31 - 1  # largest number in a row
_BYTES = {"float": 4, "int": 4, "uint": 4, "bool": 4, "half": 2}
_VECTOR = 16  # bytes; the unit of local memory allocation


class ConstantSpan(NamedTuple):
    """A range of bytes of the constants."""

    start: int = 0
    bytes: int = 0


class Distribution(NamedTuple):
    """Distribution of a stage's virtual groups over groups: two numbers of its row."""

    first: int
    second: int


def is_too_large(stage: Stage) -> bool:
    """Return whether a number of the stage's row would overflow."""
    return max([prod(stage.counts), *(use.offset for use in stage.buffers)]) > MAX_TABLE_NUMBER


def row_stride(kernels: Sequence[Kernel]) -> int:
    """Return the length of a row of the table."""
    return -(-(HEAD + max(map(row_numbers, kernels))) // 4) * 4


def row_numbers(kernel: Kernel) -> int:
    """Return how many numbers a row has for a kernel, after the head."""
    return 2 * len(kernel.buffers) + len(kernel.sizes)


def fill_table(
    stages: Sequence[Stage],
    functions: Sequence[int],
    distributions: Sequence[Distribution],
    stride: int,
    ahead: Sequence[ConstantSpan] = (),
) -> np.ndarray:
    """Return the rows of some stages.

    `functions` are the numbers of the functions they call, and `ahead` what each prefetches for
    later stages.
    """
    table = np.zeros((len(stages), stride), np.int32)
    spans = ahead or [ConstantSpan()] * len(stages)
    rows = zip(table, stages, functions, distributions, spans, strict=True)
    for row, stage, number, distribution, span in rows:
        counts = stage.counts
        numbers = [
            number,
            prod(counts),
            distribution.first,
            counts[0],
            counts[1],
            distribution.second,
            *span,
        ]
        for argument in stage.arguments:
            if isinstance(argument, BufferUse):
                numbers += [argument.buffer, argument.offset]
            else:
                numbers.append(argument)
        row[: len(numbers)] = numbers
    return table


def streamed_ahead(stages: Sequence[Stage], distance: int) -> list[ConstantSpan]:
    """Return what each stage prefetches: what the stage `distance` after it streams."""
    later = [_streamed(stage) for stage in stages[distance:]]
    return [*later, *[ConstantSpan()] * (len(stages) - len(later))]


def _streamed(stage: Stage) -> ConstantSpan:
    """Return the longest constant that a stage reads entirely and once per run."""
    spans = [ConstantSpan()]
    for argument, use in zip(stage.kernel.buffers, stage.buffers, strict=True):
        memory, pointer = argument.memory, argument.pointer
        if pointer.name in stage.kernel.streamed and isinstance(memory, Packed):
            assert use.buffer == CONSTANTS, "a persistent kernel finds all constants in one buffer"
            spans.append(ConstantSpan(use.offset * pointer.dtype.size, memory.array.nbytes))
    return max(spans, key=lambda span: span.bytes)


def claim_stage(stage: Stage, parts: int) -> Distribution:
    """Return how many virtual groups a chunk has, and along which axis a stage is divided."""
    size = max(1, -(-prod(stage.counts) // (CHUNKS * parts)))
    return Distribution(size, cut_axis(stage.counts, parts))


def cut_axis(counts: Sequence[int], parts: int) -> int:
    """Return the axis to divide a stage along: the first that is long enough, or the longest.

    Pixels come before channels, because weights are cheaper to share than values.
    """
    long_axes = [axis for axis, count in enumerate(counts) if count >= parts > 1]
    return long_axes[0] if long_axes else max(range(len(counts)), key=lambda axis: counts[axis])


def share_stages(stages: Sequence[Stage], groups: int) -> Iterator[Distribution]:
    """Yield each stage's offset from group to first virtual group, and its barrier flags.

    Groups wait only after they have arrived, so not before the first stage. After a grid barrier,
    the first group gets the first virtual group. Without one, dealing continues where it ended:
    groups that got less of a stage begin with the next.
    """
    dealt, before, arrived = 0, False, False
    for stage in stages:
        awaits = stage.awaits and arrived
        dealt = 0 if awaits and before else dealt
        yield Distribution(-dealt % groups, stage.arrives * ARRIVES + awaits * AWAITS)
        dealt, before = dealt + prod(stage.counts), stage.arrives
        arrived = before or (arrived and not awaits)


def count_barriers(distributions: Sequence[Distribution]) -> tuple[int, int]:
    """Return the number of grid barriers, and how many of them a stage runs across."""
    flags = [one.second for one in distributions]
    waits = [before for before, bits in pairwise(flags) if bits & AWAITS]
    return len(waits), sum(not before & ARRIVES for before in waits)


def local_memory(kernels: Sequence[Kernel], persistent: int, buffers: int = 0) -> int:
    """Return the local memory of a work-group in bytes.

    A `persistent` group of that many work-items runs smaller groups side by side; it also holds two
    rows of its table and the start of each buffer.
    """
    pool = 0
    for kernel in kernels:
        arrays = [item for item in kernel.body if isinstance(item, LocalArray)]
        groups = max(persistent // kernel.local_items, 1)
        pool = max(pool, groups * sum(array_vectors(array) * _VECTOR for array in arrays))
    if not persistent:
        return pool
    extra = 2 * 4 * row_stride(kernels) + 8 * buffers
    return pool + -(-extra // _VECTOR) * _VECTOR


def array_vectors(array: LocalArray) -> int:
    """Return the size of a local array in vectors of sixteen bytes, rounded up."""
    return -(-array.size * array.width * _BYTES[array.kind] // _VECTOR)
