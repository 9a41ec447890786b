"""The back ends: every folder beside this file has one, or one for each way to other machines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.device import DeviceInfo
from fourfold.players.protocol import Backend

_PACKAGE = __name__.rpartition(".")[0]


@cache
def backends() -> Mapping[str, Backend]:
    """All back ends by name."""
    names = [info.name for info in iter_modules([os.path.dirname(__file__)]) if info.ispkg]
    found = (vars(import_module(f"{_PACKAGE}.{name}")) for name in names)
    all_ = (one for own in found for one in own.get("BACKENDS") or (own["BACKEND"],))
    return {backend.name: backend for backend in all_}


def backend_of(device: DeviceInfo) -> Backend:
    """Who plays on a device: its API, or the way to the machine that it is on."""
    return backends()[device.remote.partition(":")[0] or device.api]
