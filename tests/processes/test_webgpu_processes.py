"""WebGPU in forked children and at process exit, with any available adapter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes.children import play
from webgpu_device import needs_webgpu

REJECTED = "DeviceError: webgpu was opened before this process was forked"
pytestmark = [
    needs_webgpu,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
]


def test_child_rejects_a_device_opened_by_its_parent(tmp_path: Path) -> None:
    right, ran, opened, *ended, _listed, _on_cpu, still_right = play(
        "opened_before_the_fork", "webgpu", cache=tmp_path
    )
    assert (right, ran, opened) == (True, REJECTED, REJECTED)
    assert ended == [None, "dropped", "nothing"]
    assert still_right


def test_child_opens_a_device_that_its_parent_did_not(tmp_path: Path) -> None:
    assert play("nothing_before_the_fork", "webgpu", cache=tmp_path) == [True, True]


@pytest.mark.parametrize("scenario", ["left_open_at_the_end", "run_by_atexit"])
def test_process_exits_with_open_sessions(scenario: str, tmp_path: Path) -> None:
    assert play(scenario, "webgpu", cache=tmp_path)
