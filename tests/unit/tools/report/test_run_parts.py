"""Parts of a run, and stages of a start, add up to their totals."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from fourfold.tools.report.benchmark import start_stages
from fourfold.tools.report.run_parts import RunParts


def test_parts_are_differences_of_runs() -> None:
    parts = RunParts.of(total=10.0, no_upload=7.0, no_copies=5.0, kernels=4.0)
    assert parts == RunParts(total=10.0, upload=3.0, kernels=4.0, download=2.0, host=1.0)


def test_parts_add_up_in_spite_of_noise() -> None:
    for seed in range(100):
        times = np.random.default_rng(seed).uniform(1, 2, 4)  # in any order
        parts = asdict(RunParts.of(*(float(one) for one in times)))
        assert parts.pop("total") == times[0]
        assert min(parts.values()) >= 0
        assert sum(parts.values()) == pytest.approx(times[0])


def test_a_start_has_what_no_stage_measures() -> None:
    stages = start_stages(2.0, {"read": 0.5, "build": 1.0})
    assert stages == {"total": 2.0, "read": 0.5, "build": 1.0, "other": 0.5}
