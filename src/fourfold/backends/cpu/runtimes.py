"""Shared functions of engines that wrap a runtime: import it, and report its errors."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fourfold.errors import Refusal, UnsupportedError
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output
from fourfold.support.packages import installed_version


def first_line(error: Exception) -> str:
    """Return the first line of an error message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def refused_part(engine: str, outputs: Sequence[TensorBinding], reason: str) -> UnsupportedError:
    """Return the error for a part that an engine cannot open. The part is named after its first
    output.
    """
    refusals = [Refusal(binding.name, "output", reason) for binding in outputs[:1]]
    return UnsupportedError(
        f"{engine} cannot run its part of the model",
        refusals or [Refusal("all operators", "part", reason)],
        "see 'fourfold check' for which operators stay on the CPU, and why",
    )


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
