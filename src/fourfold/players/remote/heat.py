"""Detect thermal throttling of another machine, as far as its system reports it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from fourfold.log import Log
from fourfold.players.remote.link import Link

log = Log("players.remote")

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
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdecimal()}


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
