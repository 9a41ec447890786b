"""What was opened, in a line for the log: from where, on which device, in how long."""

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
    """One sentence; `placed` is None for a model of which all runs on the device in one plan."""
    parts = ", ".join(f"{name} {took * 1e3:.1f} ms" for name, took in request.timings.items())
    seconds = time.perf_counter() - request.timings.began
    shapes = request.compile_options.shapes
    shaped = "" if not shapes else f" for {', '.join(f'{n}={list(s)}' for n, s in shapes.items())}"
    what = request.model if isinstance(request.model, str) else request.title
    head = f"opened {what}{shaped} from {ORIGINS[origin]} in {seconds * 1e3:.1f} ms"
    where = f"{device_text(request.device)}, {model.precision}"
    return f"{head} on {where}, {_placement_text(model, placed)}; {parts}"


def device_text(device: DeviceInfo) -> str:
    """A device as people find it again."""
    return device.name if device == CPU else f"{device.name} ({device.address})"


def _placement_text(model: CompiledModel, placed: Placement | None) -> str:
    if placed is None:
        return f"all of it there in {count_text(len(model.launches), 'launch', 'launches')}"
    if placed.on_gpu:
        return placed.summary
    engines = dict.fromkeys(placed.title(part.target) for part in placed.parts)
    return f"all {len(placed.rows)} operators by {', '.join(engines)}"
