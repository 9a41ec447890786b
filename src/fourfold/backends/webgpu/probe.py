"""Probes of a WebGPU device: correct results, supported precisions, and number of units."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

import numpy as np

from fourfold.backends.webgpu.player import Player
from fourfold.backends.webgpu.timer import LaunchTimer
from fourfold.codegen.wgsl import probes
from fourfold.codegen.wgsl.probes import BUSY, BUSY_GROUP
from fourfold.device import LOOP_SELF_TEST, MEASURED, PROBED, DeviceInfo, Fact
from fourfold.errors import BuildError
from fourfold.plan import ARENA, Buffer, BufferUse, Launch, Plan, Port, Program
from fourfold.support.log import Log
from fourfold.types import DType, TensorType

# Seconds that a group works at least, so that the launch overhead is negligible.
_MIN_GROUP_SECONDS = 1e-3
_FIRST_LOOPS, _MAX_LOOPS = 100, 400_000
_SLOWDOWN_THRESHOLD = 1.2  # increase over the time of one group that is more than noise
_MAX_GROUPS = 4096
_ROUNDS = 3
_WARM_UP_GROUPS = 1024  # groups that keep every device busy for a while
_UNITS_PER_CORE = 4  # units assumed per core, so that it has enough groups to switch between
log = Log("backends.webgpu")
_COUNTS = (1, 7, 4096)  # work-items
_MAX_INPUT = 80  # largest input: 3 x + 1 fits into a byte, and is exact as fp16
_TYPES = {
    "floats": (DType.F32, 4),
    "halves": (DType.F16, 2),
    "bytes": (DType.U8, 1),
    LOOP_SELF_TEST: (DType.I32, 1),
}


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
        Launch("probe", arguments, (count * BUSY_GROUP,), (BUSY_GROUP,), "probe", "a probe")
        for count in (1, groups)
    )
    return Plan(
        name="a probe",
        program=BUSY,
        buffers=(Buffer("arena", "arena", 64), Buffer("constants", "constants", 0)),
        launches=tuple(launches),
        inputs=(),
        outputs=(),
        constants=np.zeros(0, np.uint8),
        precision="fp32",
    )


def probe(info: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
    """Return these facts; features that WebGPU does not have are absent without a probe."""
    facts: dict[str, Fact] = {name: _absent(name) for name in names if name in PROBED}
    for name, determine in _PROBES.items():
        if name in names:
            facts[name] = determine(info)
    return facts


def _absent(name: str) -> Fact:
    fact: Fact = getattr(DeviceInfo, name)
    return fact


def _self_test(info: DeviceInfo) -> str:
    """Return the names of the kernels that do not build, or give wrong results."""
    wrong = [name for name, program in probes.SELF_TEST.items() if not _right(info, name, program)]
    return ", ".join(wrong)


def _half_arithmetic(info: DeviceInfo) -> bool:
    claimed = bool(info.claims.get("half_arithmetic"))
    return claimed and _right(info, "halves", probes.HALF_ARITHMETIC)


def _right(info: DeviceInfo, name: str, program: Program) -> bool:
    dtype, each = _TYPES[name]
    try:
        return all(_changes(info, program, dtype, count, each) for count in _COUNTS)
    except BuildError as error:
        log.debug("a probe fails: %s: %s", error.what, error.why)
        return False


def _changes(info: DeviceInfo, program: Program, dtype: DType, count: int, each: int) -> bool:
    """Return True if this many work-items compute the right results."""
    plan = probe_plan(program, TensorType(dtype, (count * each,)), count)
    values = np.random.default_rng(count).integers(0, _MAX_INPUT, count * each)
    player = Player(info, plan)
    try:
        player.poison()
        (result,) = player.run([values.astype(dtype.numpy)])
    finally:
        player.close()
    return bool(np.array_equal(result, (values * 3 + 1).astype(dtype.numpy)))


def probe_plan(program: Program, type_: TensorType, count: int) -> Plan:
    """Return a plan with one launch of this many work-items, from an input to an output."""
    buffers = (
        Buffer("arena", "arena", 0),
        Buffer("constants", "constants", 0),
        Buffer("x", "input", type_.bytes),
        Buffer("y", "output", type_.bytes),
    )
    grid = (-(-count // probes.GROUP) * probes.GROUP,)
    arguments = (BufferUse(2, 0), BufferUse(3, 0), count)
    return Plan(
        name="a probe",
        program=program,
        buffers=buffers,
        launches=(Launch("probe", arguments, grid, (probes.GROUP,), "probe", "a probe"),),
        inputs=(Port("x", type_, 2),),
        outputs=(Port("y", type_, 3),),
        constants=np.zeros(0, np.uint8),
        precision="fp32",
    )


_PROBES: dict[str, Callable[[DeviceInfo], Fact]] = {
    "self_test": _self_test,
    "half_arithmetic": _half_arithmetic,
    **dict.fromkeys(MEASURED, measure_units),
}
