"""Where CUDA's driver is: a library that comes with NVIDIA's driver and with nothing else."""

from __future__ import annotations

import sys
from ctypes import CDLL
from functools import cache

_NAMES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")


@cache
def library_name() -> str:
    """The name by which the system finds it; OSError where there is no driver."""
    problems = []
    for name in _NAMES:
        try:
            CDLL(name)
        except OSError as error:
            problems.append(str(error))
        else:
            return name
    raise OSError(problems[0])


def is_there() -> bool:
    """Whether there is such a driver; whether it has a GPU, only it can tell."""
    try:
        library_name()
    except OSError:
        return False
    return True
