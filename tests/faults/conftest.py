"""Fixture: every fault test starts with its own model file and cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.setting import World, new_world

from fourfold.device import DeviceInfo


@pytest.fixture
def world(
    tmp_path: Path,
    device: DeviceInfo,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    return new_world(tmp_path, device, caplog, monkeypatch)
