"""The parts of a run's time: upload, kernels, download, and the host's own, told by runs that leave
out one of them after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fourfold.backends.cpu import CPU
from fourfold.runtime.device_array import DeviceArray
from fourfold.runtime.device_memory import fresh_array
from fourfold.session import Session


@dataclass(frozen=True)
class RunParts:
    """Seconds of a run, from arrays to arrays, the shortest of some. `upload` is what it takes
    longer with inputs in the host's memory than in the device's, `download` the same of outputs,
    `kernels` what the device's clock says, and `host` the rest.
    """

    total: float
    upload: float
    kernels: float
    download: float
    host: float


def measure_parts(
    session: Session, inputs: Mapping[str, np.ndarray], runs: int = 50
) -> RunParts | None:
    """The parts of a session's run; None where engines for the CPU run some of it, and where
    memory of the device cannot be held because it is on another machine.
    """
    if session.device == CPU or session.is_in_parts or session.device.remote:
        return None
    given = {info.name: _on_device(session, info.name, inputs) for info in session.inputs}
    results = session.run(given, keep_on_device=True)
    ways: dict[str, Callable[[], object]] = {
        "total": lambda: session.run(inputs),
        "without upload": lambda: session.run(given),
        "without both": lambda: session.run(given, out=results),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, run in ways.items():
            run()  # what came before has left its own arguments
            seconds[name].append(_timed(run))
    total, no_upload, neither = (min(found) for found in seconds.values())
    kernels = min(session.device_seconds(given, runs), neither, total)
    upload, download = max(total - no_upload, 0.0), max(no_upload - neither, 0.0)
    host = max(total - upload - download - kernels, 0.0)
    return RunParts(total, upload, kernels, download, host)


def _on_device(session: Session, name: str, inputs: Mapping[str, np.ndarray]) -> DeviceArray:
    info = next(info for info in session.inputs if info.name == name)
    array = fresh_array(session.device, info)
    array.memory.write(np.ascontiguousarray(inputs[name]))
    return array


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
