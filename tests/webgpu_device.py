"""The WebGPU device that tests run on, or the reason why there is none."""

from __future__ import annotations

from functools import cache

import pytest

from fourfold.backends import determine_facts, find_device, probe, with_run_facts
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError


@cache
def found() -> tuple[DeviceInfo | None, str]:
    """Return the first adapter with all of its facts, or the reason why there is none."""
    try:
        device = find_device("webgpu")
    except DeviceError as error:
        return None, f"{error.what}: {error.why}"
    facts = determine_facts(probe(device, quantised=True), ["half_arithmetic"])
    return with_run_facts(facts), ""


def device() -> DeviceInfo:
    """Return the device, for a test that `needs_webgpu`."""
    info = found()[0]
    assert info is not None
    return info


needs_webgpu = pytest.mark.skipif(found()[0] is None, reason=found()[1])
