"""Choices that ship with the package: measured on known devices, for a start without a search."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from fourfold.device import DeviceInfo

FOLDER = os.path.join(os.path.dirname(__file__), "devices")


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
    tables = []
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".json"):
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                tables.append(json.load(file))
    return tables
