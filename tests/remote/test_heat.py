"""Measurements wait for a throttled machine to cool down, for a limited time."""

from __future__ import annotations

import pytest
from remote.machine_setup import SERIAL, FakeMachine

from fourfold.backends.remote import timer
from fourfold.backends.remote.link import AdbLink
from fourfold.backends.remote.timer import HeatWatch, read_state, signs_of_heat

CLOCK = "/sys/class/devfreq/1c00000.gpu/max_freq"


@pytest.mark.parametrize(
    ("text", "hot"),
    [
        ("", False),
        ("status 0", False),
        ("status 1", False),
        ("status 2", True),
        ("level 0", False),
        ("level 3", True),
        (f"{CLOCK} 800", False),
        (f"{CLOCK} 600", True),
        ("nonsense", False),
    ],
)
def test_detects_throttling(text: str, hot: bool) -> None:
    usual = read_state(f"status 0\nlevel 0\n{CLOCK} 800")
    assert bool(list(signs_of_heat(read_state(text), usual))) is hot


def test_constant_low_clock_is_no_throttling() -> None:
    usual = read_state(f"{CLOCK} 600")
    assert not list(signs_of_heat(usual, usual))


def test_waits_until_the_machine_is_cool(machine: FakeMachine) -> None:
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            machine.answer("dumpsys", "Thermal Status: 0")

    machine.answer("dumpsys", "Thermal Status: 0")
    watch = HeatWatch(AdbLink(SERIAL), sleep)
    assert not watch.wait()
    machine.answer("dumpsys", "IsStatusOverride: false\nThermal Status: 3")
    assert watch.wait()
    assert slept == [timer.POLL_INTERVAL_S] * 3


def test_waiting_is_limited(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(timer, "MAX_WAIT_S", 2 * timer.POLL_INTERVAL_S)
    machine.answer("dumpsys", "Thermal Status: 4")
    watch = HeatWatch(AdbLink(SERIAL), slept.append)
    assert watch.wait()
    assert not watch.wait()
    assert len(slept) == 2
