"""Long loads neither leak, hang nor return wrong results."""

from __future__ import annotations

import long_loads as loads
import pytest

from fourfold.device import DeviceInfo

# Growth after the warm-up that is due to the allocator.
MAX_GROWTH_BYTES = 8 << 20
MAX_OBJECTS = 500  # Python objects, due to caches of the interpreter


@pytest.fixture(autouse=True)
def _only_drivers(device: DeviceInfo) -> None:
    if device.api != "opencl":
        pytest.skip("the device holds no driver objects and is slow")


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--soak"))


def check_outcome(outcome: loads.Outcome, done: int) -> None:
    assert (outcome.wrong, outcome.stuck, outcome.errors) == (0, 0, [])
    assert outcome.done >= done
    assert outcome.left == {}
    assert outcome.growth < MAX_GROWTH_BYTES
    assert outcome.objects < MAX_OBJECTS


def test_opens_runs_and_closes_sessions(device: DeviceInfo) -> None:
    check_outcome(loads.open_run_close(device, cycles=40), 40)


def test_runs_one_session_many_times(device: DeviceInfo) -> None:
    check_outcome(loads.run_again(device, runs=4000), 4000)


def test_threads_share_sessions(device: DeviceInfo) -> None:
    check_outcome(loads.crowd_of_threads(device, seconds=3), 16)


def test_opens_many_sessions_at_once(device: DeviceInfo) -> None:
    check_outcome(loads.many_at_once(device, count=30), 60)


@pytest.mark.slow
def test_opens_runs_and_closes_a_thousand_sessions(device: DeviceInfo) -> None:
    check_outcome(loads.open_run_close(device, cycles=1000), 1000)


@pytest.mark.slow
def test_runs_one_session_a_hundred_thousand_times(device: DeviceInfo) -> None:
    check_outcome(loads.run_again(device, runs=100_000), 100_000)


@pytest.mark.slow
def test_threads_share_sessions_for_a_long_time(device: DeviceInfo, soak_seconds: float) -> None:
    check_outcome(loads.crowd_of_threads(device, soak_seconds), 16)


@pytest.mark.slow
def test_opens_two_hundred_sessions_at_once(device: DeviceInfo) -> None:
    check_outcome(loads.many_at_once(device, count=200), 400)
