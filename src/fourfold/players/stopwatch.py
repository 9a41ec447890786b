"""Times single launches of a plan and looks at what they wrote: the tuner's eyes."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from fourfold.device import DeviceInfo
from fourfold.plan import Plan
from fourfold.players.opencl import Player

_POISON = np.uint32(0x7FC07FC0)  # NaN as a float, and as two halves


class Stopwatch(Player):
    """A plan whose launches are run one by one. Buffer 0 is the arena."""

    def __init__(self, info: DeviceInfo, plan: Plan) -> None:
        super().__init__(info, plan)
        mode = cl.command_queue_properties.PROFILING_ENABLE
        self._timed = cl.CommandQueue(self._context, properties=mode)

    def fill(self, values: np.ndarray) -> None:
        """Put these bytes into the arena."""
        cl.enqueue_copy(self._timed, self._buffers[0], values)

    def blank(self, offset: int, size: int) -> None:
        """Make a part of the arena NaN, so that what is not written shows."""
        cl.enqueue_fill_buffer(self._timed, self._buffers[0], _POISON, offset, -(-size // 4) * 4)

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        values = np.empty(count, dtype)
        cl.enqueue_copy(self._timed, values, self._buffers[0], src_offset=offset)
        return values

    def seconds(self, launches: range, runs: int) -> float:
        """The shortest time of these launches together, by the device's own clock."""
        best = float("inf")
        for _ in range(runs):
            events = [
                cl.enqueue_nd_range_kernel(self._timed, *self._replay[number])
                for number in launches
            ]
            self._timed.finish()
            best = min(best, sum(event.profile.end - event.profile.start for event in events))
        return best * 1e-9
