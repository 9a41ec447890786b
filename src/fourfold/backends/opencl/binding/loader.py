"""The library that finds OpenCL drivers: the system's, or on Linux pyopencl's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from ctypes import CDLL, PyDLL
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder

from fourfold.config import limit_driver_threads, set_loader_folder

# Windows and macOS include it, or drivers install it. On Linux it may be missing.
_SYSTEM = {
    "win32": ("OpenCL.dll",),
    "darwin": ("/System/Library/Frameworks/OpenCL.framework/OpenCL",),
}
_ELSEWHERE = ("libOpenCL.so.1", "libOpenCL.so")


@cache
def library() -> CDLL:
    """Load the functions so that they release the GIL, for calls that wait or take long."""
    return CDLL(_path())


@cache
def quick_library() -> PyDLL:
    """Load the same functions without releasing the GIL: for calls of about a microsecond, waiting
    for the GIL again would take longer.
    """
    return PyDLL(_path())


@cache
def _path() -> str:
    """Return the first library that can be loaded; raises OSError if there is none."""
    limit_driver_threads()
    problems = []
    for path in _candidates():
        try:
            CDLL(path)
        except OSError as error:
            problems.append(str(error))
        else:
            return path
    raise OSError("; ".join(problems))


def _candidates() -> Iterator[str]:
    """Yield possible paths, in this order."""
    if sys.platform in _SYSTEM:
        yield from _SYSTEM[sys.platform]
        return
    folder = _pyopencl()
    for suffix in EXTENSION_SUFFIXES if folder is not None else ():
        path = os.path.join(str(folder), f"_cl{suffix}")
        if os.path.exists(path):
            set_loader_folder(str(folder))
            yield path  # it is linked with the loader, whose functions are found through it
    yield from _ELSEWHERE


def _pyopencl() -> str | None:
    """Return the folder of pyopencl, without importing it."""
    spec = PathFinder.find_spec("pyopencl")
    folders = None if spec is None else spec.submodule_search_locations
    return next(iter(folders), None) if folders else None
