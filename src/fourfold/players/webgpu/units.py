"""How many units a device has, which WebGPU does not tell: found by the time that groups take.

A group that keeps its unit busy takes as long alone as beside others, until there are more of them
than units. From there on the time grows with their number.
"""

from __future__ import annotations

import os

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.kernel.wgsl.probes import BUSY, BUSY_GROUP
from fourfold.plan import ARENA, Buffer, BufferUse, Launch, Plan
from fourfold.players.webgpu.timer import LaunchTimer

_COUNTS = tuple(1 << power for power in range(13))  # of groups
_LONG = 1e-3  # seconds that a group works at least, so that a launch costs little beside it
_FIRST_LOOPS, _MOST_LOOPS = 1000, 4_000_000
_WAVES = 32  # so many groups for each unit tell their number to a thirtieth
_RUNS = 2
_FOR_EACH_CORE = 4  # units that a core stands for, so that it has groups enough to take turns with


def measure_units(info: DeviceInfo) -> int:
    """The units of a GPU; a software adapter has some for each core of the processor."""
    if info.kind != "gpu":
        return _FOR_EACH_CORE * (os.cpu_count() or 1)
    alone = _seconds(info, _FIRST_LOOPS, 1)[0]
    loops = min(_MOST_LOOPS, int(_FIRST_LOOPS * max(1.0, _LONG / max(alone, 1e-7))))
    times = _seconds(info, loops, len(_COUNTS))
    pairs = zip(_COUNTS, times, strict=False)
    return max(1, round(max(count * times[0] / max(seconds, 1e-9) for count, seconds in pairs)))


def _seconds(info: DeviceInfo, loops: int, most: int) -> list[float]:
    """The times of launches of more and more groups, until the device is far from idle."""
    timer = LaunchTimer(info, _plan(loops, most))
    found: list[float] = []
    try:
        timer.seconds(range(1), 1)  # clocks rise with the work that there is
        for number in range(most):
            found.append(timer.seconds(range(number, number + 1), _RUNS))
            if found[-1] > _WAVES * found[0]:
                break
    finally:
        timer.close()
    return found


def _plan(loops: int, most: int) -> Plan:
    """A launch for each number of groups."""
    arguments = (BufferUse(ARENA, 0), loops)
    launches = (
        Launch("probe", arguments, (count * BUSY_GROUP,), (BUSY_GROUP,), "probe", "a trial")
        for count in _COUNTS[:most]
    )
    return Plan(
        name="a trial",
        program=BUSY,
        buffers=(Buffer("arena", "arena", 64), Buffer("constants", "constants", 0)),
        launches=tuple(launches),
        inputs=(),
        outputs=(),
        constants=np.zeros(0, np.uint8),
        precision="fp32",
    )
