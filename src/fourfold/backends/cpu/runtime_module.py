"""Imports the module of a runtime that may not be installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output
from fourfold.support.packages import installed_version


def import_runtime(name: str, log: Log) -> Any | None:
    """Return a module; None if its package is not installed, or cannot be imported, which is
    logged.
    """
    package = name.partition(".")[0]
    try:
        with log_native_output(log):
            return import_module(name)
    except ImportError as error:
        if installed_version(package) is not None:
            log.warn_once(f"{package} is installed but cannot be imported: {error}")
        return None
