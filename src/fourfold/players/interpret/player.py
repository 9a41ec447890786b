"""Plays plans of kernel trees, kernel after kernel, on this machine's processor."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import groupby

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Plan
from fourfold.players.interpret.buffers import Buffers
from fourfold.players.interpret.frame import Turn
from fourfold.players.interpret.kernel import Call, RunnableProgram, build
from fourfold.players.interpret.races import LEVEL, MANY
from fourfold.players.interpret.schedule import Work, all_works
from fourfold.players.interpret.warps import WARP

SUBGROUP = 16  # work-items that exchange where a driver could have any number of them
SEED = 7


class Player:
    """A plan made ready to be interpreted. Not for two threads at once."""

    def __init__(
        self,
        info: DeviceInfo,
        plan: Plan,
        program: RunnableProgram | None = None,
        subgroup: int | None = None,
    ) -> None:
        """`subgroup` is how many work-items of a sub-group there are to be."""
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        started = time.perf_counter()
        self.program = build(plan.program.text) if program is None else program
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        spelled = plan.requirements.subgroups or info.subgroups
        self._subgroup = subgroup or (SUBGROUP if spelled == "khr" else WARP)
        self._works = all_works(plan, self.program)
        self._buffers = Buffers(plan, self._works)
        self._random = np.random.default_rng(SEED)
        self._calls = [
            call
            for _, works in groupby(self._works, lambda work: work.launch)
            for call in self._bound([*works])
        ]
        self.timings["upload"] = time.perf_counter() - started

    def _bound(self, works: Sequence[Work]) -> list[Call]:
        """The works of one launch with what is behind their pointers."""
        watched = frozenset().union(*(work.written for work in works))
        return [
            Call(
                work.grid,
                [self._buffers.place(work, n, watched) for n in range(len(work.uses))],
                work.sizes,
                Turn(
                    work.kernel.entry.name,
                    (work.published << LEVEL) + work.first,
                    work.released << LEVEL,
                    partial(self._owner, work),
                ),
                work.repeats,
            )
            for work in works
        ]

    def _owner(self, asked: Work, stamp: int) -> str:
        """The work-item that left a stamp."""
        number = stamp & (MANY - 1)
        starts = [work.first for work in self._works]
        work = self._works[bisect_right(starts, number) - 1]
        name = work.grid.name(number - work.first)
        return name if work is asked else f"{name} of kernel '{work.kernel.entry.name}'"

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for these inputs, in the order of the plan's ports."""
        self._buffers.put(arrays)
        self.replay()
        return self._buffers.take()

    def replay(self) -> None:
        """Run every launch once more on what the device already holds."""
        self._times()

    def _times(self, launches: range | None = None) -> list[float]:
        """Run some launches, or all of them in a new run; the seconds that each takes."""
        times = [0.0] * len(self.plan.launches)
        self._buffers.forget()
        if launches is None:
            self._buffers.begin()
        with np.errstate(all="ignore"):
            for work, call in zip(self._works, self._calls, strict=True):
                if launches is not None and work.launch not in launches:
                    continue
                started = time.perf_counter()
                work.kernel.run(call, self._subgroup, self._random)
                times[work.launch] += time.perf_counter() - started
        return times

    def reset(self) -> None:
        """Set the model's variables back to what they began with."""
        self._buffers.reset()

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """The shortest time of each launch in seconds; variables stay what they are."""
        self._buffers.put(arrays)
        saved, best = self._buffers.saved(), [float("inf")] * len(self.plan.launches)
        for _ in range(runs):
            best = [min(pair) for pair in zip(best, self._times(), strict=True)]
        self._buffers.restore(saved)
        return best

    def binary(self) -> bytes:
        """There is none: kernels are not compiled."""
        why, fix = "kernels are interpreted, not compiled", "run without binaries"
        raise DeviceError("the interpreter gives no binary", why, fix)

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that a value nobody wrote is seen in the result."""
        self._buffers.poison()

    def close(self) -> None:
        """Give the memory back."""
        self._works, self._calls = [], []
