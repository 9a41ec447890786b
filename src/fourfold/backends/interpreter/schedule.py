"""Order of a plan's kernels, and which of them see each other's results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fourfold.backends.interpreter.frame import LaunchGrid
from fourfold.backends.interpreter.kernel import CompiledKernel, CompiledProgram
from fourfold.backends.interpreter.warps import WARP
from fourfold.codegen.stage_table import ARRIVES, AWAITS, HEAD
from fourfold.plan import BufferUse, Launch, Plan


@dataclass(frozen=True)
class ScheduledKernel:
    """A kernel that runs over a grid: a launch, or a stage of one.

    It sees everything that was `published` at a level below its `released` level.
    """

    kernel: CompiledKernel
    grid: LaunchGrid
    uses: tuple[BufferUse, ...]
    sizes: tuple[int, ...]
    launch: int = 0  # number in the plan
    released: int = 0
    published: int = 0
    first: int = 0  # number of work-items of the plan before its own
    repeats: bool = False  # whether its last group runs twice, concurrently

    @property
    def items(self) -> int:
        return (self.grid.groups + self.repeats) * self.grid.items

    @property
    def written(self) -> frozenset[int]:
        """Buffers that it may write."""
        pairs = zip(self.kernel.kernel.buffers, self.uses, strict=True)
        return frozenset(use.buffer for argument, use in pairs if argument.pointer.writable)


def make_schedule(plan: Plan, program: CompiledProgram) -> list[ScheduledKernel]:
    """Return the kernels that a plan runs, in order."""
    scheduled: list[ScheduledKernel] = []
    level = items = 0
    for number, launch in enumerate(plan.launches):
        table = program.tables.get(launch.entry)
        if table is None:
            items_of_launch = [_launched(launch, program.kernels[launch.entry])]
        else:
            kernels = [program.kernels[name] for name in table.kernels]
            items_of_launch = [*_stages(_rows(plan, launch, table.stride), kernels)]
        for item in items_of_launch:
            released, published = item.released + level, item.published + level
            scheduled.append(
                replace(item, launch=number, released=released, published=published, first=items)
            )
            items += item.items
        level = scheduled[-1].published + 1
    return scheduled


def _launched(launch: Launch, kernel: CompiledKernel) -> ScheduledKernel:
    uses = tuple(one for one in launch.arguments if isinstance(one, BufferUse))
    sizes = tuple(one for one in launch.arguments if not isinstance(one, BufferUse))
    return ScheduledKernel(kernel, LaunchGrid.of(launch.grid, launch.local), uses, sizes)


def _rows(plan: Plan, launch: Launch, stride: int) -> list[list[int]]:
    """Read the stage table of a launch from the constants."""
    *_, stages, start = launch.arguments
    assert isinstance(stages, int)
    assert isinstance(start, int)
    table = plan.constants[start : start + stages * stride * 4].view(np.int32)
    return [[int(number) for number in row] for row in table.reshape(stages, stride)]


def _stages(
    rows: Sequence[Sequence[int]], kernels: Sequence[CompiledKernel]
) -> Iterator[ScheduledKernel]:
    """Yield the stages of a table.

    A grid barrier has two parts, where groups arrive and where they wait: stages in between may run
    concurrently with those before and after it.

    Small groups that share memory run side by side and wait together: GPUs repeat the last group in
    place of those that do not exist.
    """
    arrived = waited = 0
    for row in rows:
        kernel, flags = kernels[row[0]], row[5]
        waited = arrived if flags & AWAITS else waited
        buffers, sizes = len(kernel.kernel.buffers), len(kernel.kernel.sizes)
        pairs = row[HEAD : HEAD + 2 * buffers]
        uses = tuple(BufferUse(*pair) for pair in zip(pairs[::2], pairs[1::2], strict=True))
        numbers = tuple(row[HEAD + 2 * buffers : HEAD + 2 * buffers + sizes])
        x, y = row[3], row[4]
        local = LaunchGrid.of(kernel.kernel.local, (1,) * len(kernel.kernel.local)).counts
        grid = LaunchGrid((x, y, row[1] // (x * y)), local)
        repeats = kernel.shares_memory and grid.items % WARP != 0
        yield ScheduledKernel(kernel, grid, uses, numbers, 0, waited, arrived, repeats=repeats)
        arrived += flags & ARRIVES
