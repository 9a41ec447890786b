"""Device or CPU for a whole model, told by running it on both: so 'auto' is never the slower."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Protocol

import numpy as np

from fourfold.cpu.registry import runtime_versions
from fourfold.log import Log
from fourfold.plan import Plan
from fourfold.runtime.hybrid_loading import LoadedHybrid, hybrid_key_parts, load_hybrid
from fourfold.runtime.request import Request
from fourfold.store.keys import device_key, key_of
from fourfold.store.store import Store
from fourfold.types import blank_array

log = Log("runtime")
GAIN = 0.95  # the CPU must be clearly faster, since the caller named a device
ROUNDS, SECONDS = 25, 2.0
RUNS = 3  # in a row, of which the first does not count: the other one's threads come to rest
ON_DEVICE, ON_CPU = "device", "cpu: "  # what is kept: the device, or the CPU and why


class Runnable(Protocol):
    """Who is timed: a player of one plan or of parts."""

    @property
    def plan(self) -> Plan: ...
    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]: ...


def race_cpu(request: Request, store: Store | None, player: Runnable) -> LoadedHybrid | None:
    """The model on the CPU, if that is faster; None if the device is. The answer is kept."""
    if not runtime_versions():
        return None
    device = device_key(request.device)
    key = "" if store is None else f"placement of {key_of(hybrid_key_parts(request, store))}"
    answer = "" if store is None else store.choices(device).get(key, "")
    if not answer:
        answer, seconds = _race(request, player)
        if store is not None:
            store.put_choice(device, key, answer, seconds)
    if answer == ON_DEVICE:
        return None
    return load_hybrid(_on_cpu(request, reason=answer.removeprefix(ON_CPU)), store)


def _on_cpu(request: Request, **changes: Any) -> Request:
    options = replace(request.placement_options, placement="cpu", measured=False, **changes)
    return request._replace(placement_options=options)


def _race(request: Request, player: Runnable) -> tuple[str, float]:
    """Who won, and in how many seconds. What runs for the race alone is not kept and not told."""
    rival = load_hybrid(_on_cpu(request, on_fallback=None), None)
    if rival.only_numpy:  # its format has no runtime here, and definitions are slow
        return ON_DEVICE, 0.0
    device, cpu = _times(player, rival.player)
    rival.player.close()
    log.debug(
        "%s: %.2f ms on the device, %.2f ms on the CPU", request.title, device * 1e3, cpu * 1e3
    )
    if cpu >= GAIN * device:
        return ON_DEVICE, min(device, cpu)
    reason = f"it took {cpu * 1e3:.2f} ms on the CPU and {device * 1e3:.2f} ms on the device"
    return f"{ON_CPU}{reason}", cpu


def _times(on_device: Runnable, on_cpu: Runnable) -> tuple[float, float]:
    """Median seconds of both, run in turns on zeros; the first round does not count."""
    ports = on_device.plan.inputs
    arrays = [blank_array(port.type) for port in ports]
    times: tuple[list[float], list[float]] = ([], [])
    stop = time.perf_counter() + SECONDS
    for number in range(ROUNDS + 1):
        for player, noted in zip((on_device, on_cpu), times, strict=True):
            seconds = [_timed(player, arrays) for _ in range(RUNS)]
            noted.extend(seconds[1:] if number else ())
        if number and time.perf_counter() > stop:
            break
    return median(times[0]), median(times[1])


def _timed(player: Runnable, arrays: Sequence[np.ndarray]) -> float:
    began = time.perf_counter()
    player.run(arrays)
    return time.perf_counter() - began
