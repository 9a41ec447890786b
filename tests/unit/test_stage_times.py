"""Clock readings of a persistent kernel are converted to seconds per stage."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.plan.stage_clocks import StageClock, StageClocks, StageTitle
from fourfold.runtime.stage_times import ClockSample, clock_speed, read_notes, read_runs

TITLES = (StageTitle("conv2d", "a"), StageTitle("softmax", "b"))
SHARED = StageClocks(StageClock("a timer", 1e9), TITLES, 2, 4, 256, waits_behind=False)
CLAIMED = StageClocks(StageClock("a counter"), TITLES, 3, 4, 256, waits_behind=True)


def test_converts_counters_with_different_origins() -> None:
    """Two ticks are a nanosecond. Both groups begin at 1000. The first finishes its part of stage
    one after 200 ns and waits until 300, the second finishes after 280; both end after 500.
    """
    notes = np.array(
        [
            [1000, 50, 1500, 1050, 0, 0, 450, 450, 650, 1050],
            [1000, 9000, 1500, 10000, 0, 0, 9560, 9560, 9600, 10000],
        ],
        np.int64,
    )
    times = read_notes(SHARED, notes, 1e9)
    assert times is not None
    assert times.seconds * 1e9 == pytest.approx([280, 220])
    assert times.began * 1e9 == pytest.approx([0, 280])
    assert times.waiting * 1e9 == pytest.approx([0, (100 + 20) / 2])
    assert (times.start, times.groups) == (1000, 2)


def test_handles_late_and_idle_groups() -> None:
    """The second group arrives when stage one is done and does not extend it. It is absent at the
    end of stage two, which does not count as waiting.
    """
    notes = np.array(
        [
            [100, 100, 400, 400, 180, 200, 200, 390, 400, 400],
            [300, 300, 402, 402, 301, 301, 301, 380, 402, 402],
            [0, 0, 401, 401, 0, 0, 0, 0, 0, 0],
        ],
        np.int64,
    )
    times = read_notes(CLAIMED, notes, 100.0)
    assert times is not None
    assert times.seconds == pytest.approx([1.0, 2.0])
    assert times.waiting == pytest.approx([0.1, 0.15])
    assert times.groups == 2


def test_clock_of_unknown_speed_is_calibrated_against_the_host() -> None:
    first, last = np.zeros((3, 10), np.int64), np.zeros((3, 10), np.int64)
    first[1, 0], last[2, 0] = 5000, 35000
    samples = [ClockSample(2.0, first), ClockSample(2.5, last)]
    assert clock_speed(samples) == 60000


def test_stopped_clock_yields_no_times() -> None:
    notes = np.full((3, 10), 7, np.int64)
    samples = [ClockSample(2.0, notes), ClockSample(2.5, notes)]
    assert read_runs(CLAIMED, samples) == []
    assert read_notes(SHARED, notes[:2], 1e9) is None
