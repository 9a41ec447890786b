"""The driver's library, which comes with NVIDIA's driver and with nothing else."""

from __future__ import annotations

import sys
from ctypes import CDLL, PyDLL
from functools import cache

_NAMES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")


@cache
def library() -> CDLL:
    """Its functions let other threads run: for calls that wait or take long. OSError where there is
    no driver.
    """
    return CDLL(_name())


@cache
def quick_library() -> PyDLL:
    """The same functions, which keep other threads waiting: for calls of a microsecond."""
    return PyDLL(_name())


@cache
def _name() -> str:
    problems = []
    for name in _NAMES:
        try:
            CDLL(name)
        except OSError as error:
            problems.append(str(error))
        else:
            return name
    raise OSError(problems[0])
