"""What is measured of a session for a report: whole runs, their parts, and every kernel.

This is the only place that asks a session for times.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from statistics import median, quantiles

import numpy as np

from fourfold.runtime.profile import KernelTime, Profile
from fourfold.session import Session
from fourfold.tools.report.run_parts import measure_parts
from fourfold.tools.report.run_report.record import RunTimes

WARM_UP = 5
LEAST_RUNS, MOST_RUNS = 3, 200
PART_RUNS = 20


class KernelTimes:
    """The times of kernels by the text of their node, handed out in the order they ran in. `form`
    says what was timed, in the words of `Profile`.
    """

    def __init__(self, profile: Profile) -> None:
        self.form = profile.form
        self._left: dict[str, deque[KernelTime]] = defaultdict(deque)
        for one in profile:
            self._left[one.node].append(one)

    def take(self, node: str) -> KernelTime | None:
        """The time of the next kernel of a node; None where it was not measured by itself."""
        left = self._left.get(node)
        return left.popleft() if left else None


def measure_runs(runner: Session, inputs: Mapping[str, np.ndarray], seconds: float) -> RunTimes:
    """Whole runs, as many as there is time for, and what the parts of one take."""
    runner.run(inputs)  # the first builds what drivers build late
    took = min(runner.run_seconds(inputs, WARM_UP))
    count = int(max(LEAST_RUNS, min(MOST_RUNS, seconds / max(took, 1e-6))))
    times = runner.run_seconds(inputs, count)
    tenth = quantiles(times, n=10, method="inclusive")[-1]
    runs = max(1, min(PART_RUNS, count // 3))
    parts = measure_parts(runner, inputs, runs)
    told = () if parts is None else (parts.upload, parts.kernels, parts.download, parts.host)
    return RunTimes(median(times), min(times), tenth, count, *told)


def measure_kernels(
    runner: Session, inputs: Mapping[str, np.ndarray], runs: int = 10
) -> KernelTimes:
    """What the device's clock says of every kernel."""
    return KernelTimes(runner.profile(inputs, runs))
