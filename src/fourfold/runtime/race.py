"""Comparison of the device and the CPU for a whole model, by running it on both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from fourfold.backends import Player
from fourfold.backends.cpu.registry import runtime_versions
from fourfold.plan import Plan
from fourfold.runtime.executor import Executor, open_executor
from fourfold.runtime.loading import LoadResult, load_compiled
from fourfold.runtime.request import Request, model_key_parts
from fourfold.store.keys import device_key, key_of
from fourfold.store.store import Store
from fourfold.support.log import Log
from fourfold.types import blank_array

log = Log("runtime")
MAX_CPU_RATIO = 0.95  # the CPU must be clearly faster, since the caller named a device
MAX_ROUNDS, MAX_SECONDS = 25, 2.0
RUNS_PER_ROUND = 3  # the first is discarded: threads of the other side may still be spinning
ON_DEVICE, ON_CPU = "device", "cpu: "  # stored answers; the reason follows after `ON_CPU`


def race_cpu(request: Request, store: Store | None, executor: Executor) -> LoadResult | None:
    """Return the model for the CPU engines if they are faster, else None. The store has the answer
    for later starts.
    """
    if not runtime_versions():
        return None
    device = device_key(request.device)
    key = "" if store is None else f"placement of {key_of(model_key_parts(request, store))}"
    answer = "" if store is None else store.choices(device).get(key, "")
    if not answer:
        answer, seconds = _race(request, executor)
        if store is not None:
            store.put_choice(device, key, answer, seconds)
    if answer == ON_DEVICE:
        return None
    return load_compiled(_on_cpu(request, reason=answer.removeprefix(ON_CPU)), store)


def _on_cpu(request: Request, **changes: Any) -> Request:
    options = replace(request.placement_options, placement="cpu", **changes)
    return request._replace(placement_options=options)


def _race(request: Request, executor: Executor) -> tuple[str, float]:
    """Return the faster side and its seconds. The model for the CPU is neither stored nor reported
    at this point.
    """
    model = load_compiled(_on_cpu(request, on_fallback=None), None).model
    if model.only_numpy:  # no runtime of the model's format is installed, and NumPy is slow
        return ON_DEVICE, 0.0
    rival = open_executor(model, _no_plan, request.placement_options)
    device, cpu = _times(executor, rival)
    rival.close()
    log.debug(
        "%s: %.2f ms on the device, %.2f ms on the CPU", request.title, device * 1e3, cpu * 1e3
    )
    if cpu >= MAX_CPU_RATIO * device:
        return ON_DEVICE, min(device, cpu)
    reason = f"it took {cpu * 1e3:.2f} ms on the CPU and {device * 1e3:.2f} ms on the device"
    return f"{ON_CPU}{reason}", cpu


def _no_plan(plan: Plan) -> Player:
    raise AssertionError(f"{plan.name} is a plan for the device")


def _times(on_device: Executor, on_cpu: Executor) -> tuple[float, float]:
    """Return the median seconds of both, run interleaved on zeros; the first round is discarded."""
    arrays = [blank_array(port.type) for port in on_device.model.inputs]
    times: tuple[list[float], list[float]] = ([], [])
    stop = time.perf_counter() + MAX_SECONDS
    for number in range(MAX_ROUNDS + 1):
        for executor, noted in zip((on_device, on_cpu), times, strict=True):
            seconds = [_timed(executor, arrays) for _ in range(RUNS_PER_ROUND)]
            noted.extend(seconds[1:] if number else ())
        if number and time.perf_counter() > stop:
            break
    return median(times[0]), median(times[1])


def _timed(executor: Executor, arrays: Sequence[np.ndarray]) -> float:
    began = time.perf_counter()
    executor.run(arrays)
    return time.perf_counter() - began
