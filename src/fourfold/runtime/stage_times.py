"""StageTimes: clock values recorded by a persistent kernel, converted to seconds per stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fourfold.plan.stage_clocks import EACH, HEAD, StageClocks, StageTitle


class ClockSample(NamedTuple):
    """The clock values of one run, and the host's time shortly before it."""

    host: float
    notes: np.ndarray


@dataclass(frozen=True, eq=False)
class StageTimes:
    """The times of all stages in one run. Stages run one after the other: a stage lasts from the
    end of all earlier stages to its own end. `waiting` is the mean over all groups.

    `start` is the value of the device clock when the first group began, in ticks.
    """

    stages: tuple[StageTitle, ...]
    start: int
    began: np.ndarray
    seconds: np.ndarray
    waiting: np.ndarray
    groups: int  # number of groups that ran

    @property
    def total(self) -> float:
        return float(self.seconds.sum())


def read_runs(clocks: StageClocks, samples: Sequence[ClockSample]) -> list[StageTimes]:
    """Return the times of each run; an empty list if the clock did not advance."""
    per_second = clocks.clock.per_second or clock_speed(samples)
    if not per_second:
        return []
    times = (read_notes(clocks, sample.notes, per_second) for sample in samples)
    return [one for one in times if one is not None]


def clock_speed(samples: Sequence[ClockSample]) -> float:
    """Return the ticks per second of a device clock, compared with the host's clock; 0 if
    unknown.
    """
    first, last = samples[0], samples[-1]
    seconds, ticks = last.host - first.host, _start(last.notes) - _start(first.notes)
    return ticks / seconds if seconds > 0 and ticks > 0 else 0.0


def _start(notes: np.ndarray) -> int:
    """Return the clock value when the first group began."""
    began = notes[:, 0]
    return int(began[began != 0].min(initial=np.iinfo(np.int64).max))


def read_notes(clocks: StageClocks, notes: np.ndarray, per_second: float) -> StageTimes | None:
    """Return the times of one run from the values that its groups recorded; None if no time
    passed.
    """
    rows = notes[notes[:, 0] != 0]
    device_began, own_began, device_ended, own_ended = rows[:, :HEAD].T
    device_ticks = int((device_ended - device_began).sum())
    if not len(rows) or device_ticks <= 0:
        return None
    # Compute units may have clocks of different speed. All of them ran for the same total time.
    own_speed = float((own_ended - own_began).sum()) / device_ticks * per_second
    start = _start(notes)
    middle = (device_began - start + device_ended - start) / 2 / per_second
    own_middle = (own_ended - own_began) / 2 / own_speed
    offset = (middle - own_middle)[:, None]

    ticks = rows[:, HEAD:].reshape(len(rows), len(clocks.stages), EACH)
    waiting = (ticks[:, :, 1] - ticks[:, :, 0]) / own_speed
    began_to_wait = (ticks[:, :, 0] - own_began[:, None]) / own_speed + offset
    ended = (ticks[:, :, 2] - own_began[:, None]) / own_speed + offset
    # Groups that wait after a stage continue when all of it is done; otherwise the last end counts.
    done = ended.min(axis=0) if clocks.waits_behind else ended.max(axis=0)
    done = np.maximum.accumulate(np.maximum(done, 0.0))
    if clocks.waits_behind:  # later delays are caused by the scheduler, not by other groups
        waiting = np.maximum(done - began_to_wait, 0.0)
    began = np.concatenate([[0.0], done[:-1]])
    return StageTimes(clocks.stages, start, began, done - began, waiting.mean(axis=0), len(rows))
