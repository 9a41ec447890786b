"""The log line for an opened model: its origin, its device, and the time of each stage."""

from __future__ import annotations

import time

from fourfold.backends.cpu import CPU
from fourfold.device import DeviceInfo
from fourfold.plan import CompiledModel
from fourfold.plan.placement import Placement
from fourfold.runtime.request import Request
from fourfold.support.display import count_text

ORIGINS = {"file": "the prepared file", "store": "the store", "model": "the model itself"}


def describe_opening(
    request: Request, model: CompiledModel, origin: str, placed: Placement | None
) -> str:
    """Return one sentence. `placed` is None for a model that runs whole on the device."""
    parts = ", ".join(f"{name} {took * 1e3:.1f} ms" for name, took in request.timings.items())
    seconds = time.perf_counter() - request.timings.began
    shapes = request.compile_options.shapes
    shaped = "" if not shapes else f" for {', '.join(f'{n}={list(s)}' for n, s in shapes.items())}"
    what = request.model if isinstance(request.model, str) else request.title
    head = f"opened {what}{shaped} from {ORIGINS[origin]} in {seconds * 1e3:.1f} ms"
    where = f"{device_text(request.device)}, {model.precision}"
    return f"{head} on {where}, {_placement_text(model, placed)}; {parts}"


def device_text(device: DeviceInfo) -> str:
    """Return a device's name and address."""
    return device.name if device == CPU else f"{device.name} ({device.address})"


def _placement_text(model: CompiledModel, placed: Placement | None) -> str:
    if placed is None:
        return f"all operators in {count_text(len(model.launches), 'launch', 'launches')}"
    if placed.on_gpu:
        return placed.summary
    engines = dict.fromkeys(placed.title(part.target) for part in placed.parts)
    return f"all {len(placed.rows)} operators with {', '.join(engines)}"
