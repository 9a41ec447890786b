"""WebGPU in forked children and at the end of a process, by whatever adapter there is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes.children import play
from webgpu_device import needs_webgpu

REFUSED = "DeviceError: webgpu was opened before this process was forked"
pytestmark = [
    needs_webgpu,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
]


def test_a_device_that_was_opened_before(tmp_path: Path) -> None:
    right, ran, opened, *ended, _listed, _on_cpu, still_right = play(
        "opened_before_the_fork", "webgpu", cache=tmp_path
    )
    assert (right, ran, opened) == (True, REFUSED, REFUSED)
    assert ended == [None, "dropped", "nothing"]
    assert still_right


def test_a_device_that_was_not_opened_before(tmp_path: Path) -> None:
    assert play("nothing_before_the_fork", "webgpu", cache=tmp_path) == [True, True]


@pytest.mark.parametrize("scenario", ["left_open_at_the_end", "run_by_atexit"])
def test_sessions_that_nobody_closed(scenario: str, tmp_path: Path) -> None:
    assert play(scenario, "webgpu", cache=tmp_path)
