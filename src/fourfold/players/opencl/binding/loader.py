"""The library that finds OpenCL drivers: the system's, or on Linux pyopencl's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from ctypes import CDLL, PyDLL
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder

from fourfold.config import limit_driver, tell_loader

# Windows and macOS come with it, or drivers bring it. Of a Linux nothing of the kind is known.
_SYSTEM = {
    "win32": ("OpenCL.dll",),
    "darwin": ("/System/Library/Frameworks/OpenCL.framework/OpenCL",),
}
_ELSEWHERE = ("libOpenCL.so.1", "libOpenCL.so")


@cache
def library() -> CDLL:
    """Its functions let other threads run: for calls that wait or take long."""
    return CDLL(_path())


@cache
def quick_library() -> PyDLL:
    """The same functions, which keep other threads waiting: for calls of a microsecond, after
    which a thread that had let go would have to queue for its turn.
    """
    return PyDLL(_path())


@cache
def _path() -> str:
    """The first library that can be loaded; OSError if there is none."""
    limit_driver()
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
    """Where to look, in this order."""
    if sys.platform in _SYSTEM:
        yield from _SYSTEM[sys.platform]
        return
    folder = _pyopencl()
    for suffix in EXTENSION_SUFFIXES if folder is not None else ():
        path = os.path.join(str(folder), f"_cl{suffix}")
        if os.path.exists(path):
            tell_loader(str(folder))
            yield path  # it is linked with the loader, whose functions are found through it
    yield from _ELSEWHERE


def _pyopencl() -> str | None:
    """Where pyopencl is installed, without importing it."""
    found = PathFinder.find_spec("pyopencl")
    places = None if found is None else found.submodule_search_locations
    return next(iter(places), None) if places else None
