"""What is measured of a session for a report: whole runs, their parts, and every kernel.

This is the only place that asks a session for times.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from statistics import median, quantiles

import numpy as np

from fourfold.report.run_parts import measure_parts
from fourfold.report.run_report.record import RunTimes
from fourfold.runtime.model_runner import ModelRunner

WARM_UP = 5
LEAST_RUNS, MOST_RUNS = 3, 200
PART_RUNS = 20


class KernelTimes:
    """The seconds of kernels by the text of their node, handed out in the order they ran in."""

    def __init__(self, rows: Iterable[tuple[str, float]]) -> None:
        self._left: dict[str, deque[float]] = defaultdict(deque)
        for node, seconds in rows:
            self._left[node].append(seconds)

    def take(self, node: str) -> float | None:
        """The time of the next kernel of a node; None where it was not measured by itself."""
        left = self._left.get(node)
        return left.popleft() if left else None


def measure_runs(runner: ModelRunner, inputs: Mapping[str, np.ndarray], seconds: float) -> RunTimes:
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
    runner: ModelRunner, inputs: Mapping[str, np.ndarray], runs: int = 10
) -> KernelTimes:
    """What the device's clock says of every kernel."""
    return KernelTimes((one.node, one.seconds) for one in runner.profile(inputs, runs))
