"""A program ends by itself and without a word, whatever sessions it has left open."""

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
def test_sessions_that_nobody_closed(device: DeviceInfo, cache: Path, scenario: str) -> None:
    assert play(scenario, device.address, cache=cache) is True


@pytest.mark.parametrize("kind", ["daemon", "waited for"])
def test_threads_that_still_run(device: DeviceInfo, cache: Path, kind: str) -> None:
    assert play("with_threads_at_the_end", device.address, kind, cache=cache) is True


@pytest.mark.slow
def test_threads_that_still_run_at_any_moment(device: DeviceInfo, cache: Path) -> None:
    told = [play("with_threads_at_the_end", device.address, "daemon", cache=cache) for _ in "12345"]
    assert told == [True] * 5
