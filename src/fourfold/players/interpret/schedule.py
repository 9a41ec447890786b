"""In which order kernels of a plan run, and who of them can rely on whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fourfold.plan import BufferUse, Launch, Plan
from fourfold.players.interpret.frame import Grid
from fourfold.players.interpret.kernel import RunnableKernel


@dataclass(frozen=True)
class Work:
    """A kernel that runs over a grid: a launch, or a stage of one.

    It can rely on all that was `published` at a level below the one at which it was `released`.
    """

    kernel: RunnableKernel
    grid: Grid
    uses: tuple[BufferUse, ...]
    sizes: tuple[int, ...]
    launch: int = 0  # its number in the plan
    released: int = 0
    published: int = 0
    first: int = 0  # how many work-items of the plan come before its own

    @property
    def items(self) -> int:
        return self.grid.groups * self.grid.items

    @property
    def written(self) -> frozenset[int]:
        """The buffers that it may write."""
        pairs = zip(self.kernel.kernel.buffers, self.uses, strict=True)
        return frozenset(use.buffer for argument, use in pairs if argument.pointer.writable)


def all_works(plan: Plan, kernels: Mapping[str, RunnableKernel]) -> list[Work]:
    """What a plan runs, in order."""
    found: list[Work] = []
    level = items = 0
    for number, launch in enumerate(plan.launches):
        works = [_launched(launch, kernels[launch.entry])]
        for work in works:
            levels = work.released + level, work.published + level
            found.append(
                replace(work, launch=number, released=levels[0], published=levels[1], first=items)
            )
            items += work.items
        level = found[-1].published + 1
    return found


def _launched(launch: Launch, kernel: RunnableKernel) -> Work:
    uses = tuple(one for one in launch.arguments if isinstance(one, BufferUse))
    sizes = tuple(one for one in launch.arguments if not isinstance(one, BufferUse))
    return Work(kernel, Grid.of(launch.grid, launch.local), uses, sizes)
