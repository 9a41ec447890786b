"""Recommend options for a device, and check whether a model suits it.

The answers come from probes on the device, from earlier measurements, and from a short list of
known faults.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import get_data
from typing import Any

from fourfold import backends
from fourfold.compiler.convert import make_readable_with_config
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, Refusal, UnsupportedError
from fourfold.options import CompileOptions
from fourfold.store.keys import device_key
from fourfold.store.store import configured_store
from fourfold.support.display import shown


@dataclass(frozen=True)
class Fault:
    """A fault of devices and drivers whose names match, and the options that avoid it."""

    device: str
    what: str
    source: str
    driver: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def concerns(self, device: DeviceInfo) -> bool:
        name = f"{device.vendor} {device.name}"
        fits = re.search(self.device, name, re.IGNORECASE) is not None
        return fits and re.search(self.driver, device.driver, re.IGNORECASE) is not None

    @shown
    def __str__(self) -> str:
        return f"{self.what} ({self.source})"


@cache
def known_faults() -> tuple[Fault, ...]:
    text = get_data(__name__, "faults.json") or b"[]"
    return tuple(Fault(**item) for item in json.loads(text))


def faults_of(device: DeviceInfo) -> tuple[Fault, ...]:
    return tuple(fault for fault in known_faults() if fault.concerns(device))


__all__ = ["BestOptions", "Support", "best_options", "is_supported"]
Device = str | int | DeviceInfo | None
MIN_MEASURED_KERNELS = 4  # measured in both precisions, to compare these
MAX_TIME_RATIO = 0.95  # of another precision to be considered faster


@dataclass(frozen=True)
class BestOptions:
    """Recommended options for a device, with reasons.

    Attributes:
        device: Name of the device.
        place: 'gpu', or 'cpu' if the device is not usable.
        precision: Recommended precision.
        inference_preference: Recommended tuning time, as in `GpuOptions`.
        threads: Number of CPU threads.
        reasons: Reasons for the recommendation.
        faults: Known faults of the device.
    """

    device: str
    place: str
    precision: str
    inference_preference: str
    threads: int
    reasons: tuple[str, ...]
    faults: tuple[Fault, ...] = ()

    def for_session(self) -> dict[str, Any]:
        """Return these options as keywords of `Session`."""
        if self.place == "cpu":
            return {"device": "cpu", "threads": self.threads}
        return {"device": self.device, "precision": self.precision, "threads": self.threads}

    def for_delegate(self) -> dict[str, Any]:
        """Return these options as keywords of `GpuDelegate`."""
        loss = self.precision != "fp32"
        return {
            "device": self.device,
            "precision_loss_allowed": loss,
            "inference_preference": self.inference_preference,
        }

    @shown
    def __str__(self) -> str:
        where = f"the CPU on {self.threads} threads" if self.place == "cpu" else self.device
        head = f"{where}: precision {self.precision}, {self.inference_preference}"
        return "\n".join([head, *(f"  {line}" for line in (*self.reasons, *self.faults))])


@dataclass(frozen=True)
class Support:
    """How well a device supports a model. It is true if at least part of the model runs there.

    Attributes:
        verdict: 'gpu', 'partly', 'cpu' or 'no'.
        device: Name of the device.
        operators: Number of operators.
        on_gpu: Number of operators that run on the device.
        share: Share of the estimated time spent on the device.
        reasons: Operators that fall back, with reasons.
        advice: What to do next.
    """

    verdict: str
    device: str
    operators: int
    on_gpu: int
    share: float
    reasons: tuple[Refusal, ...]
    advice: str

    def __bool__(self) -> bool:
        return self.verdict in ("gpu", "partly")

    @shown
    def __str__(self) -> str:
        count = f"{self.on_gpu} of {self.operators} operators on {self.device}"
        head = f"{self.verdict}: {count} ({self.share:.0%} of the estimated time)"
        return "\n".join([head, *(f"  {reason}" for reason in self.reasons), f"  {self.advice}"])


def best_options(device: Device = None) -> BestOptions:
    """Return the recommended options for a device, from probes and measurements.

    Args:
        device: The device, as in `Session`; by default the first one.
    """
    threads, info = _threads(), _find(device)
    if isinstance(info, str):
        return BestOptions("cpu", "cpu", "fp32", "fast_single_answer", threads, (info,))
    wrong = _find_error(info, "fp32")
    faults = faults_of(info)
    if wrong or info.is_cpu:
        why = wrong or "it is the CPU through OpenCL; a CPU runtime is faster"
        notes = (f"{info.name}: {why}",)
        return BestOptions(info.name, "cpu", "fp32", "fast_single_answer", threads, notes, faults)
    tuned = _measured(info)
    precision, why = _precision(info, tuned)
    preference, also = _preference(tuned)
    for fault in faults:
        preference = fault.options.get("inference_preference", preference)
        precision = fault.options.get("precision", precision)
    return BestOptions(info.name, "gpu", precision, preference, threads, (why, also), faults)


def is_supported(model: str | os.PathLike[str] | bytes, device: Device = None) -> Support:
    """Return how well a device supports a model: fully, partly, better on the CPU, or not at all.

    Args:
        model: Path or content of a model.
        device: The device, as in `Session`; by default the first one.
    """
    on_cpu = f"run it on the CPU with {_threads()} threads: Session(model, device='cpu')"
    info = _find(device)
    wrong = info if isinstance(info, str) else _find_error(info, "fp32")
    if isinstance(info, str) or wrong:
        name = "no device" if isinstance(info, str) else info.name
        return Support("cpu", name, 0, 0, 0.0, (Refusal(name, "device", wrong),), on_cpu)
    content = model if isinstance(model, bytes) else os.fspath(model)
    title = "the model" if isinstance(content, bytes) else Path(content).name
    check, config = import_module("fourfold.tools.report.check"), Config.from_environment()
    try:
        readable = make_readable_with_config(config, content)
        report = check.check_model(
            readable.content, title, info, CompileOptions(), origin=readable.origin
        )
    except UnsupportedError as error:
        return Support("no", info.name, 0, 0, 0.0, error.refusals, error.fix)
    return _support(report.placement, info, on_cpu)


def _support(placement: Any, info: DeviceInfo, on_cpu: str) -> Support:
    rows = placement.fallbacks
    verdict = "gpu" if placement.whole else "partly" if placement.on_gpu else "cpu"
    advice = {
        "gpu": "the whole model runs on the GPU",
        "partly": "see 'fourfold check MODEL' for what could be changed",
        "cpu": on_cpu,
    }[verdict]
    if verdict == "gpu" and info.is_cpu and placement.engine:
        advice = (
            f"{info.name} is the CPU through OpenCL; {placement.engine} may be faster: {on_cpu}"
        )
    return Support(
        verdict=verdict,
        device=info.name,
        operators=len(placement.rows),
        on_gpu=placement.on_gpu,
        share=placement.share,
        reasons=tuple(Refusal(row.name, row.op, row.reason) for row in rows),
        advice=advice,
    )


def _find(device: Device) -> DeviceInfo | str:
    """Return the device, or why this machine has none. An unknown name is still an error."""
    try:
        available = backends.devices()
    except DeviceError as error:
        return f"{error.what}: {error.why}"
    if not available:
        return "no OpenCL device was found"
    return backends.find_device(Config.from_environment().device if device is None else device)


def _find_error(info: DeviceInfo, precision: str) -> str:
    return str(import_module("fourfold.tools.capabilities.probe").find_error(info, precision))


def _threads() -> int:
    """Return the number of CPU cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _measured(info: DeviceInfo) -> Mapping[str, Mapping[str, float]]:
    """Return measured seconds on this device, by precision and computation."""
    config = Config.from_environment()
    store = configured_store(config)
    rows = [] if store is None else store.choice_rows(device_key(info))
    return sort_times((one.key, one.seconds) for one in rows)


def sort_times(rows: Iterable[tuple[str, float]]) -> Mapping[str, Mapping[str, float]]:
    """Return times by precision and by computation, regardless of its storage type."""
    times: dict[str, dict[str, float]] = {}
    for key, seconds in rows:
        match = re.fullmatch(r"(.*) \((\w+)\)", key, re.DOTALL)
        if match is not None:
            work = re.sub(r" as (\w+) f(?:16|32)\b", r" as \1", match[1])
            times.setdefault(match[2], {})[work] = seconds
    return times


def _precision(info: DeviceInfo, tuned: Mapping[str, Mapping[str, float]]) -> tuple[str, str]:
    wrong = _find_error(info, "mixed")
    if wrong:
        return "fp32", f"fp16 storage gives wrong results: {wrong}"
    fp32, mixed = tuned.get("fp32", {}), tuned.get("mixed", {})
    both = fp32.keys() & mixed.keys()
    if len(both) < MIN_MEASURED_KERNELS:
        return "mixed", "fp16 storage is accurate and halves the memory traffic"
    ratio = sum(mixed[work] for work in both) / sum(fp32[work] for work in both)
    better = "mixed" if ratio <= MAX_TIME_RATIO else "fp32"
    return better, f"mixed took {ratio:.0%} of the time of fp32 in {len(both)} measured kernels"


def _preference(tuned: Mapping[str, Mapping[str, float]]) -> tuple[str, str]:
    count = sum(len(times) for times in tuned.values())
    if count:
        return "fast_single_answer", f"{count} kernels were tuned before and are reused"
    return "balanced", "no kernel is tuned yet: a few seconds of tuning make later runs faster"
