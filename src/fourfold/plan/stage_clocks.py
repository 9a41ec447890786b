"""StageClocks: where a persistent kernel for profiling records the times of its stages.

Each group has a row of 64-bit numbers. The first four are the device clock and the group's own
clock when the group began, and both when it ended; one clock may serve as both. Three numbers per
stage follow: the ticks when the group began to wait for others, when it continued, and when it
finished. A group that did nothing has zeros.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD = 4  # numbers at the start of a row
EACH = 3  # numbers of a stage
_BYTES = 8


class StageTitle(NamedTuple):
    """The kernel of a stage, and the node it came from."""

    kernel: str
    node: str


class StageClock(NamedTuple):
    """A clock that kernels can read: its name, its ticks per second (None if it has to be
    calibrated against the host's clock), and the build options it needs.
    """

    name: str
    per_second: float | None = None
    build_options: str = ""


class StageClocks(NamedTuple):
    """The stages in the order of their rows, and the location of their times."""

    clock: StageClock
    stages: tuple[StageTitle, ...]
    groups: int
    buffer: int
    offset: int  # in bytes
    waits_behind: bool  # whether groups wait after each stage, or before it

    @property
    def shape(self) -> tuple[int, int]:
        """Number of groups, and of numbers per group."""
        return self.groups, HEAD + EACH * len(self.stages)

    @property
    def bytes(self) -> int:
        rows, numbers = self.shape
        return rows * numbers * _BYTES
