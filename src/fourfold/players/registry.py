"""The back ends: every folder beside this file has one."""

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
    found = (import_module(f"{_PACKAGE}.{name}").BACKEND for name in names)
    return {backend.name: backend for backend in found}


def backend_of(device: DeviceInfo) -> Backend:
    """Who plays on a device."""
    return backends()[device.api]
