"""Nothing grows, nothing hangs, nothing is wrong, however long it goes on."""

from __future__ import annotations

import long_loads as loads
import pytest

from fourfold.device import DeviceInfo

# Bytes that may come after the warm-up: the allocator's own, not the load's.
NOISE = 8 << 20
OBJECTS = 500  # of Python's: caches of the interpreter, not the load's


@pytest.fixture(autouse=True)
def _only_drivers(device: DeviceInfo) -> None:
    if device.api != "opencl":
        pytest.skip("it holds nothing of a driver, and takes its time")


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--soak"))


def check(outcome: loads.Outcome, done: int) -> None:
    assert (outcome.wrong, outcome.stuck, outcome.errors) == (0, 0, [])
    assert outcome.done >= done
    assert outcome.left == {}
    assert outcome.growth < NOISE
    assert outcome.objects < OBJECTS


def test_open_run_close(device: DeviceInfo) -> None:
    check(loads.open_run_close(device, cycles=40), 40)


def test_runs(device: DeviceInfo) -> None:
    check(loads.run_again(device, runs=4000), 4000)


def test_threads_on_sessions(device: DeviceInfo) -> None:
    check(loads.crowd_of_threads(device, seconds=3), 16)


def test_many_sessions_at_once(device: DeviceInfo) -> None:
    check(loads.many_at_once(device, count=30), 60)


@pytest.mark.slow
def test_a_thousand_times_open_run_close(device: DeviceInfo) -> None:
    check(loads.open_run_close(device, cycles=1000), 1000)


@pytest.mark.slow
def test_a_hundred_thousand_runs(device: DeviceInfo) -> None:
    check(loads.run_again(device, runs=100_000), 100_000)


@pytest.mark.slow
def test_threads_on_sessions_for_long(device: DeviceInfo, soak_seconds: float) -> None:
    check(loads.crowd_of_threads(device, soak_seconds), 16)


@pytest.mark.slow
def test_two_hundred_sessions_at_once(device: DeviceInfo) -> None:
    check(loads.many_at_once(device, count=200), 400)
