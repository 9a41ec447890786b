"""Helpers for fp16 tests on devices that may not support it."""

from __future__ import annotations

import pytest

from fourfold.backends import determine_facts
from fourfold.device import DeviceInfo


def skip_without_halves(device: DeviceInfo, precision: str = "fp16") -> None:
    """Skip a test if the device does not support its precision."""
    if precision == "fp16" and not determine_facts(device, ["half_arithmetic"]).half_arithmetic:
        pytest.skip(f"{device.name} has no fp16 arithmetic")
