"""Devices as parameters: every test that asks for `device` runs on each device of this machine, and
on those that its module has as INTERPRETED; or on --device NAME alone.
"""

from __future__ import annotations

import os

import pytest

from fourfold.device import DeviceInfo
from fourfold.players import devices, find_device, probe, ready_to_play


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default=None, help="run device tests on this device only")


def pytest_configure() -> None:
    os.environ["FOURFOLD_CACHE"] = "none"  # tests keep nothing unless they say where


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--device")
        found = devices() if wanted is None else (find_device(wanted),)
        found = tuple(ready_to_play(probe(info, quantised=True)) for info in found)
        if wanted is None:
            found += getattr(metafunc.module, "INTERPRETED", ())
        metafunc.parametrize("device", found, ids=[_short(info) for info in found], scope="session")


def _short(info: DeviceInfo) -> str:
    return "-".join(info.name.replace(",", "").split()[:2])
