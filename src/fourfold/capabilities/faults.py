"""Known faults of devices and drivers. faults.json has pattern, description and source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pkgutil import get_data

from fourfold.device import DeviceInfo


@dataclass(frozen=True)
class Fault:
    """A fault of devices and drivers whose names match, and the options that avoid it."""

    device: str
    what: str
    source: str
    driver: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def concerns(self, device: DeviceInfo) -> bool:
        name = f"{device.vendor} {device.name}"
        fits = re.search(self.device, name, re.IGNORECASE) is not None
        return fits and re.search(self.driver, device.driver, re.IGNORECASE) is not None

    def __str__(self) -> str:
        return f"{self.what} ({self.source})"


@cache
def known_faults() -> tuple[Fault, ...]:
    text = get_data(__name__, "faults.json") or b"[]"
    return tuple(Fault(**item) for item in json.loads(text))


def faults_of(device: DeviceInfo) -> tuple[Fault, ...]:
    return tuple(fault for fault in known_faults() if fault.concerns(device))
