"""How many units a device has, which WebGPU does not tell: found by the time that groups take.

Groups are given to idle units first. So they take as long as one alone until there are more of them
than units, and then, since a group keeps its unit busy, at once much longer.
"""

from __future__ import annotations

import os

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.kernel.wgsl.probes import BUSY, BUSY_GROUP
from fourfold.plan import ARENA, Buffer, BufferUse, Launch, Plan
from fourfold.players.webgpu.timer import LaunchTimer

_LONG = 1e-3  # seconds that a group works at least, so that a launch costs little beside it
_FIRST_LOOPS, _MOST_LOOPS = 100, 400_000
_LONGER = 1.2  # times the seconds of one group are more than noise
_MOST_GROUPS = 4096
_ROUNDS = 3
_WARMING = 1024  # groups that every device takes a while for
_FOR_EACH_CORE = 4  # units that a core stands for, so that it has groups enough to take turns with


def measure_units(info: DeviceInfo) -> int:
    """The units of a GPU; a software adapter has some for each core of the processor."""
    if info.kind != "gpu":
        return _FOR_EACH_CORE * (os.cpu_count() or 1)
    held = LaunchTimer(info, _plan(_WARMING, _FIRST_LOOPS))  # its pipeline is that of all others
    try:
        held.seconds(range(1, 2), _ROUNDS)  # clocks rise with the work that there is
        alone = held.seconds(range(1), _ROUNDS)
        loops = min(_MOST_LOOPS, int(_FIRST_LOOPS * max(1.0, _LONG / max(alone, 1e-7))))
        return _most_at_once(info, loops)
    finally:
        held.close()


def _most_at_once(info: DeviceInfo, loops: int) -> int:
    """The largest number of groups that take no longer than one."""
    few, many = 1, 2
    while many < _MOST_GROUPS and not _take_longer(info, many, loops):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        if _take_longer(info, middle, loops):
            many = middle
        else:
            few = middle
    return few


def _take_longer(info: DeviceInfo, groups: int, loops: int) -> bool:
    """Whether so many groups take longer than one; both in turns, since clocks rise and fall."""
    timer = LaunchTimer(info, _plan(groups, loops))
    try:
        pairs = [[timer.seconds(range(n, n + 1), 1) for n in range(2)] for _ in range(_ROUNDS)]
    finally:
        timer.close()
    alone, together = (min(times) for times in zip(*pairs, strict=True))
    return bool(together > _LONGER * alone)


def _plan(groups: int, loops: int) -> Plan:
    """A launch of one group, and one of so many."""
    arguments = (BufferUse(ARENA, 0), loops)
    launches = (
        Launch("probe", arguments, (count * BUSY_GROUP,), (BUSY_GROUP,), "probe", "a trial")
        for count in (1, groups)
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
