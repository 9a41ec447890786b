"""A program ends by itself and silently, even with open sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes.children import play

from fourfold.device import DeviceInfo

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no group of processes can be ended there")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.mark.parametrize(
    "scenario", ["left_open_at_the_end", "run_by_atexit", "gone_before_the_end"]
)
def test_process_exits_with_open_sessions(device: DeviceInfo, cache: Path, scenario: str) -> None:
    assert play(scenario, device.address, cache=cache) is True


@pytest.mark.parametrize("kind", ["daemon", "waited for"])
def test_process_exits_with_running_threads(device: DeviceInfo, cache: Path, kind: str) -> None:
    assert play("with_threads_at_the_end", device.address, kind, cache=cache) is True


@pytest.mark.slow
def test_process_repeatedly_exits_with_running_threads(device: DeviceInfo, cache: Path) -> None:
    outcomes = [
        play("with_threads_at_the_end", device.address, "daemon", cache=cache) for _ in "12345"
    ]
    assert outcomes == [True] * 5
