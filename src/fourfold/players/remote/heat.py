"""Whether another machine slows itself down because it is hot, as far as its system tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from fourfold.log import Log
from fourfold.players.remote.link import Link

log = Log("players.remote")

PAUSE, MOST = 5.0, 180.0  # seconds between two looks, and of waiting at most
_MODERATE = 2  # of Android's thermal status: from here on it slows things down
# A line for each thing that tells: its name, and how far things may go now; more is better.
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
    """Looks at one machine. What its clocks may do at first is what is usual for it: some are
    held back by their owner.
    """

    def __init__(self, link: Link, sleep: Callable[[float], None] = time.sleep) -> None:
        self._link, self._sleep = link, sleep
        self._usual, self._accepted = self._look(), 0

    def wait(self) -> bool:
        """Whether it was too hot; by now it is not, or somebody waited for long in vain."""
        sign = self._sign()
        if sign is None:
            return False
        log.warn_once(
            f"{self._link.name} is hot ({sign}): kernels are timed when it has cooled down"
        )
        for _ in range(round(MOST / PAUSE)):
            self._sleep(PAUSE)
            if self._sign() is None:
                return True
        log.warn_once(f"{self._link.name} stays hot: kernels are timed as it is now")
        self._usual = self._look()
        self._accepted = self._usual.get("status", 0)
        return True

    def _look(self) -> State:
        return read_state(self._link.run(_LOOK).output)

    def _sign(self) -> str | None:
        return next(signs_of_heat(self._look(), self._usual, self._accepted), None)


def read_state(told: str) -> State:
    """Numbers by what they are of."""
    words = (line.split() for line in told.splitlines())
    return {two[0]: int(two[1]) for two in words if len(two) == 2 and two[1].isdecimal()}


def signs_of_heat(now: State, usual: State, accepted: int = 0) -> Iterator[str]:
    """What says that a machine slows itself down, beyond a status that was waited for in vain."""
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
