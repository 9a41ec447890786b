"""Tests in half precision, on devices that may not compute in it."""

from __future__ import annotations

import pytest

from fourfold.backends import determine_facts
from fourfold.device import DeviceInfo


def skip_without_halves(device: DeviceInfo, precision: str = "fp16") -> None:
    """Skip a test in this precision where the device does not compute in it."""
    if precision == "fp16" and not determine_facts(device, ["half_arithmetic"]).half_arithmetic:
        pytest.skip(f"{device.name} has no fp16 arithmetic")
