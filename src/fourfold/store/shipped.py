"""Choices that ship with the package: measured on known devices, for a start without a search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fourfold.device import DeviceInfo

FOLDER = Path(__file__).parent / "devices"


@cache
def known_choices(device: DeviceInfo) -> Mapping[str, str]:
    """What was found best on a device of this name and platform."""
    for table in _tables():
        if table["device"] == device.name and table["platform"] == device.platform:
            return dict(table["choices"])
    return {}


def known_devices() -> list[tuple[str, int]]:
    """The devices that the package knows, and how many choices it has for each."""
    return [(table["device"], len(table["choices"])) for table in _tables()]


@cache
def _tables() -> list[dict[str, Any]]:
    found = sorted(FOLDER.glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in found]
