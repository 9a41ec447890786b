"""Measure the number of compute units, which WebGPU does not report, by the time groups take.

Groups are assigned to idle units first. They take as long as a single group until there are more of
them than units. Then the time increases sharply, since a group occupies its unit.
"""

from __future__ import annotations

import os

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.kernel.wgsl.probes import BUSY, BUSY_GROUP
from fourfold.plan import ARENA, Buffer, BufferUse, Launch, Plan
from fourfold.players.webgpu.timer import LaunchTimer

# Seconds that a group works at least, so that the launch overhead is negligible.
_MIN_GROUP_SECONDS = 1e-3
_FIRST_LOOPS, _MAX_LOOPS = 100, 400_000
_SLOWDOWN_THRESHOLD = 1.2  # increase over the time of one group that is more than noise
_MAX_GROUPS = 4096
_ROUNDS = 3
_WARM_UP_GROUPS = 1024  # groups that keep every device busy for a while
_UNITS_PER_CORE = 4  # units assumed per core, so that it has enough groups to switch between


def measure_units(info: DeviceInfo) -> int:
    """Return the units of a GPU; a software adapter has several per CPU core."""
    if info.kind != "gpu":
        return _UNITS_PER_CORE * (os.cpu_count() or 1)
    held = LaunchTimer(info, _plan(_WARM_UP_GROUPS, _FIRST_LOOPS))  # all timers share its pipeline
    try:
        held.seconds(range(1, 2), _ROUNDS)  # clocks rise under load
        alone = held.seconds(range(1), _ROUNDS)
        loops = min(_MAX_LOOPS, int(_FIRST_LOOPS * max(1.0, _MIN_GROUP_SECONDS / max(alone, 1e-7))))
        return _max_concurrent_groups(info, loops)
    finally:
        held.close()


def _max_concurrent_groups(info: DeviceInfo, loops: int) -> int:
    """Return the largest number of groups that take no longer than one."""
    low, high = 1, 2
    while high < _MAX_GROUPS and not _take_longer(info, high, loops):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _take_longer(info, middle, loops):
            high = middle
        else:
            low = middle
    return low


def _take_longer(info: DeviceInfo, groups: int, loops: int) -> bool:
    """Return True if this many groups take longer than one; measured interleaved, since clocks
    vary.
    """
    timer = LaunchTimer(info, _plan(groups, loops))
    try:
        pairs = [[timer.seconds(range(n, n + 1), 1) for n in range(2)] for _ in range(_ROUNDS)]
    finally:
        timer.close()
    alone, together = (min(times) for times in zip(*pairs, strict=True))
    return bool(together > _SLOWDOWN_THRESHOLD * alone)


def _plan(groups: int, loops: int) -> Plan:
    """Return a plan with a launch of one group, and one of `groups`."""
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
