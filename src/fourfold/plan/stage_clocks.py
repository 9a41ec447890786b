"""StageClocks: where a persistent kernel that is made for profiling notes when its stages ended.

Each group has a row of 64-bit numbers. It begins with the time of the device's clock when the group
began, the ticks of the group's own clock then, and both again when it ended; one clock may be both.
For each stage follow the ticks at which the group began to wait for others, at which it went on,
and at which it was done. A group that did nothing leaves zeros.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD = 4  # numbers at the start of a row
EACH = 3  # numbers of a stage
_BYTES = 8


class StageTitle(NamedTuple):
    """What a stage runs: its kernel, and the node it came from."""

    kernel: str
    node: str


class StageClock(NamedTuple):
    """What tells the time in a kernel: its name, how many of it are a second where that is known
    (else it has to be found by comparing it with the host's), and what builds need for it.
    """

    name: str
    per_second: float | None = None
    build_options: str = ""


class StageClocks(NamedTuple):
    """The stages in the order of their rows, and where in which buffer their times are."""

    clock: StageClock
    stages: tuple[StageTitle, ...]
    groups: int
    buffer: int
    offset: int  # in bytes
    waits_behind: bool  # whether groups wait behind a stage for all of it, or before one

    @property
    def shape(self) -> tuple[int, int]:
        """Groups, and the numbers of each."""
        return self.groups, HEAD + EACH * len(self.stages)

    @property
    def bytes(self) -> int:
        rows, numbers = self.shape
        return rows * numbers * _BYTES
