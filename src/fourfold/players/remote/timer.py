"""Times launches of a plan on another machine, many at once, and waits while it is throttled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import ARENA, Plan
from fourfold.players.cleanup import cleanup_on_error
from fourfold.players.protocol import LaunchOutput, OutputDifference
from fourfold.players.remote.heat import HeatWatch
from fourfold.players.remote.player import Player


class LaunchTimer(Player):
    """A plan whose launches are run one by one. Buffer 0 is the arena."""

    def __init__(self, info: DeviceInfo, plan: Plan) -> None:
        super().__init__(info, plan)
        with cleanup_on_error(self.close):
            self._heat = HeatWatch(self._machine.link)

    def fill(self, values: np.ndarray) -> None:
        """Copy these bytes into the arena."""
        self._send(f"fill {ARENA} 0", values)

    def blank(self, offset: int, size: int) -> None:
        self._ask(f"blank {ARENA} {offset} {-(-size // 4) * 4}")

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        file = self._machine.new_name()
        self._ask(f"read {ARENA} {offset} {count * dtype.itemsize} {file}")
        return np.frombuffer(self._fetch(file), dtype)

    def seconds(self, launches: range, runs: int) -> float:
        return float(self._ask(_time(launches, runs))["seconds"])

    def seconds_of_all(self, all_launches: Sequence[range], runs: int) -> list[float]:
        """Time all launches at once; times measured while the machine was throttled are measured
        again.
        """
        steps = [_time(launches, runs) for launches in all_launches]
        answers = self._ask_all(steps)
        if self._heat.wait():
            answers = self._ask_all(steps)
        return [float(answer.get("seconds", "inf")) for answer in answers]

    def differences(self, all_written: Sequence[LaunchOutput]) -> list[OutputDifference | None]:
        """Compare outputs on the machine: transferring them would take long."""
        first, *others = all_written
        self.blank(first.offset, _size(first))
        self.seconds(first.launches, 1)
        self._ask(f"keep {ARENA} {first.offset} {_size(first)}")
        steps = [step for one in others for step in _comparison(one)]
        answers = self._ask_all(steps)
        rows = [answers[start : start + 3] for start in range(0, len(answers), 3)]
        return [OutputDifference(False, 0.0, 0.0), *map(_difference, rows)]

    def _ask_all(self, steps: Sequence[str]) -> list[dict[str, Any]]:
        if self._process is None:
            raise DeviceError(
                "the plan is no longer open", "close() was called", "use it before close()"
            )
        return self._process.ask_all(steps)


def _size(written: LaunchOutput) -> int:
    return written.elements * written.dtype.size


def _time(launches: range, runs: int) -> str:
    return f"time {launches.start} {len(launches)} {runs}"


def _comparison(written: LaunchOutput) -> list[str]:
    location = f"{ARENA} {written.offset}"
    return [
        f"blank {location} {-(-_size(written) // 4) * 4}",
        _time(written.launches, 1),
        f"compare {location} {_size(written)} {written.dtype.value}",
    ]


def _difference(answers: Sequence[dict[str, Any]]) -> OutputDifference | None:
    """Return the result of a comparison; None if one of its steps failed."""
    if any("error" in answer for answer in answers):
        return None
    result = answers[-1]
    return OutputDifference(
        bool(result["nan_differs"]), float(result["largest"]), float(result["scale"])
    )
