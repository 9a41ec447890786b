"""Measurements of a session for a report: runs, their parts, and every kernel."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import replace
from statistics import median, quantiles

import numpy as np

from fourfold.runtime.profile import KernelTime, Profile
from fourfold.session import Session
from fourfold.tools.report.run_parts import measure_parts
from fourfold.tools.report.run_report.record import RunTimes

WARM_UP_RUNS = 5
MIN_RUNS, MAX_RUNS = 3, 200
MAX_PART_RUNS = 20


class KernelTimes:
    """Times of kernels by the text of their node, returned in the order of execution. For `form`,
    see `Profile`.
    """

    def __init__(self, profile: Profile) -> None:
        self.form = profile.form
        self._left: dict[str, deque[KernelTime]] = defaultdict(deque)
        for one in profile:
            self._left[one.node].append(one)

    def take(self, node: str) -> KernelTime | None:
        """Return the time of the next kernel of a node; None if it was not measured by itself."""
        remaining = self._left.get(node)
        return remaining.popleft() if remaining else None


def measure_runs(runner: Session, inputs: Mapping[str, np.ndarray], seconds: float) -> RunTimes:
    """Measure runs within a time limit, and the parts of a run."""
    runner.run(inputs)  # some drivers build kernels in the first run
    took = min(runner.run_seconds(inputs, WARM_UP_RUNS))
    count = int(max(MIN_RUNS, min(MAX_RUNS, seconds / max(took, 1e-6))))
    times = runner.run_seconds(inputs, count)
    tenth = quantiles(times, n=10, method="inclusive")[-1]
    runs = max(1, min(MAX_PART_RUNS, count // 3))
    parts = measure_parts(runner, inputs, runs)
    result = RunTimes(median(times), min(times), tenth, count)
    if parts is None:
        return result
    return replace(
        result,
        upload=parts.upload,
        kernels=parts.kernels,
        download=parts.download,
        host=parts.host,
    )


def measure_kernels(
    runner: Session, inputs: Mapping[str, np.ndarray], runs: int = 10
) -> KernelTimes:
    """Measure every kernel with the device's clock."""
    return KernelTimes(runner.profile(inputs, runs))
