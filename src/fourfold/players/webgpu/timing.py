"""Measure launches by the device's clock, or by the host's."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from fourfold.players.webgpu import binding as wg
from fourfold.players.webgpu.memory import read_buffer

CLOCK = "timestamp-query"  # feature of a device with its own clock
_MAX_TIMED_LAUNCHES = 1024  # launches timed by one submission; a query set has at most 4096 entries


def time_launches(device: wg.Device, launches: Sequence[wg.Recording]) -> list[float]:
    """Return the seconds of each launch, run one after the other."""
    if CLOCK not in device.features:
        return [_by_host(device, launch) for launch in launches]
    parts = range(0, len(launches), _MAX_TIMED_LAUNCHES)
    return [
        seconds
        for start in parts
        for seconds in _by_device(device, launches[start : start + _MAX_TIMED_LAUNCHES])
    ]


def _by_device(device: wg.Device, launches: Sequence[wg.Recording]) -> list[float]:
    count = 2 * len(launches)
    times = wg.QuerySet(device, count)
    target = wg.Buffer(device, 8 * count, wg.QUERY_RESOLVE | wg.COPY_SOURCE)
    try:
        commands = wg.Commands(device)
        for number, launch in enumerate(launches):
            commands.launch(launch, times, 2 * number)
        commands.resolve(times, target)
        commands.submit()
        ticks = np.empty((len(launches), 2), np.uint64)
        read_buffer(target, 0, ticks)
    finally:
        target.release()
        times.release()
    # The clock may stand still, but not go back.
    passed = (ticks[:, 1] - ticks[:, 0]).astype(np.int64)
    return [max(0, int(one)) * device.timestamp_seconds for one in passed]


def _by_host(device: wg.Device, launch: wg.Recording) -> float:
    device.wait()
    commands = wg.Commands(device)
    commands.launch(launch)
    began = time.perf_counter()
    device.wait(commands.submit())
    return time.perf_counter() - began
