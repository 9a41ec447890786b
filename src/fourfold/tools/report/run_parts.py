"""Parts of the time of a run: upload, kernels, download and host. They are measured with runs that
leave out one part after the other.
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
    """Seconds of the shortest of several runs, from arrays to arrays. `upload` is the extra time of
    inputs in host memory instead of device memory, `download` that of outputs, `kernels` the time
    by the device's clock, and `host` the remainder: the four add up to `total`.
    """

    total: float
    upload: float
    kernels: float
    download: float
    host: float

    @classmethod
    def of(cls, total: float, no_upload: float, no_copies: float, kernels: float) -> RunParts:
        """Return the parts of a run from the times of runs that leave out the upload, then the
        download too. A run that leaves out more counts as no longer than the one before it: if it
        was, the difference is noise.
        """
        no_upload = min(no_upload, total)
        no_copies = min(no_copies, no_upload)
        kernels = min(kernels, no_copies)
        upload, download = total - no_upload, no_upload - no_copies
        return cls(total, upload, kernels, download, no_copies - kernels)


def measure_parts(
    session: Session, inputs: Mapping[str, np.ndarray], runs: int = 50
) -> RunParts | None:
    """Return the parts of a session's run; None if CPU engines run some of the model, or if the
    device is on another machine.
    """
    if session.device == CPU or session.is_in_parts or session.device.remote:
        return None
    on_device = {info.name: _on_device(session, info.name, inputs) for info in session.inputs}
    results = session.run(on_device, keep_on_device=True)
    variants: dict[str, Callable[[], object]] = {
        "total": lambda: session.run(inputs),
        "without upload": lambda: session.run(on_device),
        "without both": lambda: session.run(on_device, out=results),
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(runs):
        for name, run in variants.items():
            run()  # the previous variant left other arguments bound
            seconds[name].append(_timed(run))
    total, no_upload, no_copies = (min(times) for times in seconds.values())
    return RunParts.of(total, no_upload, no_copies, session.device_seconds(on_device, runs))


def _on_device(session: Session, name: str, inputs: Mapping[str, np.ndarray]) -> DeviceArray:
    info = next(info for info in session.inputs if info.name == name)
    array = fresh_array(session.device, info)
    array.memory.write(np.ascontiguousarray(inputs[name]))
    return array


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
