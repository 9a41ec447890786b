"""StageTimes: what the clocks of a persistent kernel noted, as seconds of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fourfold.plan.stage_clocks import EACH, HEAD, StageClocks, StageTitle


class ClockSample(NamedTuple):
    """What one run noted, and the host's time shortly before it."""

    host: float
    notes: np.ndarray


@dataclass(frozen=True, eq=False)
class StageTimes:
    """One run of all stages. They are done one after the other, so what a stage takes is the time
    from when all before it were done until it is, too; `waiting` is the mean of all groups.

    `start` is the device's clock when the first group began, in its own ticks.
    """

    stages: tuple[StageTitle, ...]
    start: int
    began: np.ndarray
    seconds: np.ndarray
    waiting: np.ndarray
    groups: int  # that took part

    @property
    def total(self) -> float:
        return float(self.seconds.sum())


def read_runs(clocks: StageClocks, samples: Sequence[ClockSample]) -> list[StageTimes]:
    """The times of each run; nothing where the clock stood still."""
    per_second = clocks.clock.per_second or clock_speed(samples)
    if not per_second:
        return []
    found = (read_notes(clocks, sample.notes, per_second) for sample in samples)
    return [one for one in found if one is not None]


def clock_speed(samples: Sequence[ClockSample]) -> float:
    """Ticks in a second of a device's clock: how far it went while the host's went so far."""
    first, last = samples[0], samples[-1]
    seconds, ticks = last.host - first.host, _start(last.notes) - _start(first.notes)
    return ticks / seconds if seconds > 0 and ticks > 0 else 0.0


def _start(notes: np.ndarray) -> int:
    """When the first group began."""
    began = notes[:, 0]
    return int(began[began != 0].min(initial=np.iinfo(np.int64).max))


def read_notes(clocks: StageClocks, notes: np.ndarray, per_second: float) -> StageTimes | None:
    """One run by what its groups noted; None where no time went by."""
    rows = notes[notes[:, 0] != 0]
    device_began, own_began, device_ended, own_ended = rows[:, :HEAD].T
    device_ticks = int((device_ended - device_began).sum())
    if not len(rows) or device_ticks <= 0:
        return None
    # Units may count at a speed of their own: all of them went from begin to end in the same time.
    own_speed = float((own_ended - own_began).sum()) / device_ticks * per_second
    start = _start(notes)
    middle = (device_began - start + device_ended - start) / 2 / per_second
    own_middle = (own_ended - own_began) / 2 / own_speed
    offset = (middle - own_middle)[:, None]

    ticks = rows[:, HEAD:].reshape(len(rows), len(clocks.stages), EACH)
    waiting = (ticks[:, :, 1] - ticks[:, :, 0]) / own_speed
    began_to_wait = (ticks[:, :, 0] - own_began[:, None]) / own_speed + offset
    ended = (ticks[:, :, 2] - own_began[:, None]) / own_speed + offset
    # Who waits behind a stage goes on when all of it is done; else the last one's end is the end.
    done = ended.min(axis=0) if clocks.waits_behind else ended.max(axis=0)
    done = np.maximum.accumulate(np.maximum(done, 0.0))
    if clocks.waits_behind:  # what comes after is not the others' fault, but the scheduler's
        waiting = np.maximum(done - began_to_wait, 0.0)
    began = np.concatenate([[0.0], done[:-1]])
    return StageTimes(clocks.stages, start, began, done - began, waiting.mean(axis=0), len(rows))
