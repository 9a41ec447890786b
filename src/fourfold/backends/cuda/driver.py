"""Locate CUDA's driver library, which is installed with NVIDIA's driver."""

from __future__ import annotations

import sys
from ctypes import CDLL
from functools import cache

_NAMES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")


@cache
def library_name() -> str:
    """Return the name of the driver library; raises OSError if it is not installed."""
    problems = []
    for name in _NAMES:
        try:
            CDLL(name)
        except OSError as error:
            problems.append(str(error))
        else:
            return name
    raise OSError(problems[0])


def is_installed() -> bool:
    """Return True if the driver is installed, even if it has no GPU."""
    try:
        library_name()
    except OSError:
        return False
    return True
