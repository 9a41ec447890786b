"""Times launches of a plan on another machine, many at once, and waits while it is throttled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.protocol import LaunchOutput, OutputDifference
from fourfold.backends.remote.answers import CheckedAnswer, array_in
from fourfold.backends.remote.link import Link
from fourfold.backends.remote.player import Player
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import ARENA, Plan
from fourfold.support.log import Log

log = Log("backends.remote")

POLL_INTERVAL_S, MAX_WAIT_S = 5.0, 180.0  # interval of checks, and maximum wait
_MODERATE = 2  # Android's thermal status from which on the device is throttled
# One line per indicator: its name, and the current limit; higher is better.
_LOOK = """
status=$(dumpsys thermalservice 2>/dev/null | sed -n 's/^Thermal Status: *//p' | head -n 1)
if [ -n "$status" ]; then echo "status $status"; fi
level=/sys/class/kgsl/kgsl-3d0/thermal_pwrlevel
if [ -r $level ]; then echo "level $(cat $level)"; fi
for clock in /sys/class/devfreq/*gpu*/max_freq /sys/class/devfreq/*mali*/max_freq \
    /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq; do
  if [ -r "$clock" ]; then echo "$clock $(cat "$clock")"; fi
done
true
"""
State = Mapping[str, int]


class HeatWatch:
    """Watches one machine. Its initial clock limits count as normal, since users may have lowered
    them.
    """

    def __init__(self, link: Link, sleep: Callable[[float], None] = time.sleep) -> None:
        self._link, self._sleep = link, sleep
        self._usual, self._accepted = self._look(), 0

    def wait(self) -> bool:
        """Wait while the machine is too hot; returns False if it was not."""
        sign = self._sign()
        if sign is None:
            return False
        log.warn_once(
            f"{self._link.name} is hot ({sign}): kernels are timed after it has cooled down"
        )
        for _ in range(round(MAX_WAIT_S / POLL_INTERVAL_S)):
            self._sleep(POLL_INTERVAL_S)
            if self._sign() is None:
                return True
        log.warn_once(f"{self._link.name} stays hot: kernels are timed nevertheless")
        self._usual = self._look()
        self._accepted = self._usual.get("status", 0)
        return True

    def _look(self) -> State:
        return read_state(self._link.run(_LOOK).output)

    def _sign(self) -> str | None:
        return next(signs_of_heat(self._look(), self._usual, self._accepted), None)


def read_state(output: str) -> State:
    """Parse the output of the check into numbers by name."""
    words = (line.split() for line in output.splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and _is_count(pair[1])}


def _is_count(word: str) -> bool:
    return word.isdecimal() and len(word) < 19


def signs_of_heat(now: State, usual: State, accepted: int = 0) -> Iterator[str]:
    """Yield indications of throttling, ignoring an `accepted` thermal status."""
    for name, value in now.items():
        before = usual.get(name, value)
        if name == "status":
            if value >= _MODERATE and value > accepted:
                yield f"its thermal status is {value}"
        elif name == "level":
            if value > before:
                yield f"its GPU is held at power level {value}"
        elif value < before:
            yield f"a clock is held at {value} of {before}"


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
        return array_in(self._fetch(file), dtype, count, 0, self._machine.link.name)

    def seconds(self, launches: range, runs: int) -> float:
        return self._ask(_time(launches, runs)).seconds("seconds")

    def seconds_of_all(self, all_launches: Sequence[range], runs: int) -> list[float]:
        """Time all launches at once; times measured while the machine was throttled are measured
        again.
        """
        steps = [_time(launches, runs) for launches in all_launches]
        answers = self._ask_all(steps)
        if self._heat.wait():
            answers = self._ask_all(steps)
        return [
            math.inf if "error" in one else self._read(one).seconds("seconds") for one in answers
        ]

    def differences(self, all_written: Sequence[LaunchOutput]) -> list[OutputDifference | None]:
        """Compare outputs on the machine: transferring them would take long."""
        first, *others = all_written
        self.blank(first.offset, _size(first))
        self.seconds(first.launches, 1)
        self._ask(f"keep {ARENA} {first.offset} {_size(first)}")
        steps = [step for one in others for step in _comparison(one)]
        answers = self._ask_all(steps)
        rows = [answers[start : start + 3] for start in range(0, len(answers), 3)]
        return [OutputDifference(False, 0.0, 0.0), *map(self._difference, rows)]

    def _ask_all(self, steps: Sequence[str]) -> list[dict[str, Any]]:
        if self._process is None:
            raise DeviceError(
                "the plan is no longer open", "close() was called", "use it before close()"
            )
        return self._process.ask_all(steps)

    def _read(self, answer: dict[str, Any]) -> CheckedAnswer:
        return CheckedAnswer(answer, self._machine.link.name)

    def _difference(self, answers: Sequence[dict[str, Any]]) -> OutputDifference | None:
        """Return the result of a comparison; None if one of its steps failed."""
        if any("error" in answer for answer in answers):
            return None
        last = self._read(answers[-1])
        return OutputDifference(
            last.flag("nan_differs"), last.number("largest"), last.number("scale")
        )


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
