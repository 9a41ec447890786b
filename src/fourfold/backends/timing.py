"""Time measurement of local players, and comparison of their launches one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fourfold.backends.protocol import BoundRun, Into, LaunchOutput, OutputDifference, Outputs
from fourfold.errors import DeviceError


class TimedRuns:
    """Mixin that measures runs by the host's clock."""

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        raise NotImplementedError

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        return [_timed(lambda: self.run(arrays)) for _ in range(runs)]


class TimedPlayer(TimedRuns):
    """Mixin that measures runs and replays of a local player."""

    def replay(self) -> None:
        raise NotImplementedError

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> BoundRun | None:
        """Return None: most players have no variant faster than `run_bound`."""
        return None

    def replay_seconds(self, runs: int) -> list[float]:
        return [_timed(self.replay) for _ in range(runs)]


class LaunchesOneByOne:
    """Mixin for timers that implement only single launches."""

    def blank(self, offset: int, size: int) -> None:
        raise NotImplementedError

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        raise NotImplementedError

    def seconds(self, launches: range, runs: int) -> float:
        raise NotImplementedError

    def seconds_of_all(self, all_launches: Sequence[range], runs: int) -> list[float]:
        return [self.seconds(launches, runs) for launches in all_launches]

    def differences(self, all_written: Sequence[LaunchOutput]) -> list[OutputDifference | None]:
        expected = self._written(all_written[0])
        return [difference_of(expected, expected), *self._others(all_written[1:], expected)]

    def _others(
        self, all_written: Sequence[LaunchOutput], expected: np.ndarray
    ) -> list[OutputDifference | None]:
        differences: list[OutputDifference | None] = []
        for written in all_written:
            try:
                differences.append(difference_of(self._written(written), expected))
            except DeviceError:
                differences.append(None)
        return differences

    def _written(self, written: LaunchOutput) -> np.ndarray:
        """Return what launches write into a blank part of the arena."""
        self.blank(written.offset, written.elements * written.dtype.size)
        self.seconds(written.launches, 1)
        values = self.read(written.offset, written.dtype.numpy, written.elements)
        return values.astype(np.float32)


def difference_of(output: np.ndarray, expected: np.ndarray) -> OutputDifference:
    finite = np.isfinite(expected)
    same = np.array_equal(output[~finite], expected[~finite], equal_nan=True)
    apart = np.abs(output[finite] - expected[finite])
    scale = float(np.abs(expected[finite]).max(initial=0.0))
    # NaN or infinity instead of a finite value counts as an infinite difference.
    largest = float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max(initial=0.0))
    return OutputDifference(not same, largest, scale)


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
