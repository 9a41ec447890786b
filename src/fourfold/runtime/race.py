"""Device or CPU for a whole model, told by running it on both: so that 'auto' is never the slower
one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Protocol

import numpy as np

from fourfold.cpu import litert
from fourfold.options import PlacementOptions
from fourfold.plan import Plan
from fourfold.runtime.hybrid_loading import LoadedHybrid, load_hybrid
from fourfold.runtime.loading import Request, request_parts
from fourfold.store.keys import device_key, key_of
from fourfold.store.store import Store

GAIN = 0.95  # the CPU must be clearly faster, since the caller named a device
ROUNDS, SECONDS = 25, 2.0
TURN = 3  # runs in a row, of which the first does not count: the other one's threads come to rest


class Runs(Protocol):
    """Who is raced: a player of one plan or of parts."""

    @property
    def plan(self) -> Plan: ...
    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]: ...


def race_cpu(
    request: Request, store: Store | None, wishes: PlacementOptions, player: Runs
) -> LoadedHybrid | None:
    """The model on the CPU, if that is faster; None if the device is. The answer is kept."""
    if litert.runtime() is None:
        return None
    key = "" if store is None else f"placement of {key_of(request_parts(request, store))}"
    known = "" if store is None else store.choices(device_key(request.device)).get(key, "")
    if known == "device":
        return None
    on_cpu = replace(wishes, placement="cpu", reason=known.partition(": ")[2])
    if known:
        return load_hybrid(request, store, on_cpu)
    placed = load_hybrid(request, None, on_cpu)  # kept when it has won
    ours, theirs = _times(player, placed.player)
    choice = "device"
    if theirs < GAIN * ours:
        said = f"it took {theirs * 1e3:.2f} ms on the CPU and {ours * 1e3:.2f} ms on the device"
        choice = f"cpu: {said}"
    if store is not None:
        store.put_choice(device_key(request.device), key, choice, min(ours, theirs))
    placed.player.close()
    if choice == "device":
        return None
    return load_hybrid(request, store, replace(on_cpu, reason=choice.partition(": ")[2]))


def _times(ours: Runs, theirs: Runs) -> tuple[float, float]:
    """Median seconds of both, run in turns on zeros; the first turn of each does not count."""
    ports = ours.plan.inputs
    arrays = [np.zeros(port.type.shape, port.type.dtype.numpy) for port in ports]
    times: tuple[list[float], list[float]] = ([], [])
    stop = time.perf_counter() + SECONDS
    for number in range(ROUNDS + 1):
        for runner, noted in zip((ours, theirs), times, strict=True):
            turn = [_timed(runner, arrays) for _ in range(TURN)]
            noted.extend(turn[1:] if number else ())
        if number and time.perf_counter() > stop:
            break
    return median(times[0]), median(times[1])


def _timed(runner: Runs, arrays: Sequence[np.ndarray]) -> float:
    began = time.perf_counter()
    runner.run(arrays)
    return time.perf_counter() - began
