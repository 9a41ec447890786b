"""Tuned choices that ship with the package, measured on known devices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from fourfold.device import DeviceInfo
from fourfold.store.package import package_files, read_package_file

FOLDER = "store/devices"


@cache
def known_choices(device: DeviceInfo) -> Mapping[str, str]:
    """Return the shipped choices for devices of this name and platform."""
    for table in _tables():
        if table["device"] == device.name and table["platform"] == device.platform:
            return dict(table["choices"])
    return {}


@cache
def _tables() -> list[dict[str, Any]]:
    files = sorted(package_files((FOLDER,), (".json",)))
    return [json.loads(read_package_file(file)) for file in files]
