"""Times single launches of a plan and reads their results, for the tuner."""

from __future__ import annotations

import numpy as np

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.player import POISON, Player
from fourfold.backends.timing import LaunchesOneByOne
from fourfold.device import DeviceInfo
from fourfold.plan import Plan


class LaunchTimer(Player, LaunchesOneByOne):
    """A plan whose launches are run one by one. Buffer 0 is the arena."""

    def __init__(self, info: DeviceInfo, plan: Plan) -> None:
        super().__init__(info, plan)
        self._timed = cl.Queue(self._context, profiling=True)

    def fill(self, values: np.ndarray) -> None:
        """Copy these bytes into the arena."""
        self._timed.write(self._buffers[0], values)

    def blank(self, offset: int, size: int) -> None:
        """Fill a part of the arena with NaN, so that unwritten values show up."""
        self._timed.fill(self._buffers[0], POISON, offset, -(-size // 4) * 4)

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        values = np.empty(count, dtype)
        self._timed.read(self._buffers[0], values, offset)
        return values

    def seconds(self, launches: range, runs: int) -> float:
        """Return the shortest time from the start of the first launch to the end of the last, by
        the device's clock. Raises a DeviceError if one of them cannot run.
        """
        seconds: float = self._guard("timing kernels", lambda: self._seconds(launches, runs))
        return seconds

    def _seconds(self, launches: range, runs: int) -> float:
        best = float("inf")
        for _ in range(runs):
            events = [self._timed.timed(self._replay[number]) for number in launches]
            self._timed.finish()
            best = min(best, events[-1].seconds_from(events[0]))
        return best
