"""How players of this machine tell times, and how their launches are compared: one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fourfold.errors import DeviceError
from fourfold.players.protocol import BoundRun, Into, LaunchOutput, OutputDifference, Outputs


class TimedRuns:
    """What is added to runs: how long they take by this machine's clock."""

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        raise NotImplementedError

    def run_seconds(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        return [_timed(lambda: self.run(arrays)) for _ in range(runs)]


class TimedPlayer(TimedRuns):
    """The same for a player of this machine."""

    def replay(self) -> None:
        raise NotImplementedError

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> BoundRun | None:
        """Most have none that would take less time than `run_bound`."""
        return None

    def replay_seconds(self, runs: int) -> list[float]:
        return [_timed(self.replay) for _ in range(runs)]


class LaunchesOneByOne:
    """What a timer adds that asks for nothing more than single launches."""

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
        found: list[OutputDifference | None] = []
        for written in all_written:
            try:
                found.append(difference_of(self._written(written), expected))
            except DeviceError:
                found.append(None)
        return found

    def _written(self, written: LaunchOutput) -> np.ndarray:
        """What launches write, where there was nothing before."""
        self.blank(written.offset, written.elements * written.dtype.size)
        self.seconds(written.launches, 1)
        values = self.read(written.offset, written.dtype.numpy, written.elements)
        return values.astype(np.float32)


def difference_of(output: np.ndarray, expected: np.ndarray) -> OutputDifference:
    known = np.isfinite(expected)
    same = np.array_equal(output[~known], expected[~known], equal_nan=True)
    apart = np.abs(output[known] - expected[known])
    scale = float(np.abs(expected[known]).max(initial=0.0))
    # What is no number where one is expected is as far off as can be.
    largest = float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max(initial=0.0))
    return OutputDifference(not same, largest, scale)


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
