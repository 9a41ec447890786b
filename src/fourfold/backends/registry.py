"""Registry of backends: every folder next to this file has one, or one per kind of remote link."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.backends.protocol import Backend
from fourfold.device import DeviceInfo

_PACKAGE = __name__.rpartition(".")[0]
NO_BACKENDS = ("cpu",)  # CPU engines run parts of graphs, not plans


@cache
def backends() -> Mapping[str, Backend]:
    """Return all backends by name."""
    names = [
        info.name
        for info in iter_modules([os.path.dirname(__file__)])
        if info.ispkg and info.name not in NO_BACKENDS
    ]
    modules = (vars(import_module(f"{_PACKAGE}.{name}")) for name in names)
    all_ = (one for module in modules for one in module.get("BACKENDS") or (module["BACKEND"],))
    return {backend.name: backend for backend in all_}


def backend_of(device: DeviceInfo) -> Backend:
    """Return the backend of a device: of its API, or of the link to its machine."""
    return backends()[device.remote.partition(":")[0] or device.api]
