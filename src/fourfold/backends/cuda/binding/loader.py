"""The driver's library, loaded with and without releasing the GIL."""

from __future__ import annotations

from ctypes import CDLL, PyDLL
from functools import cache

from fourfold.backends.cuda.driver import library_name


@cache
def library() -> CDLL:
    """Load the functions so that they release the GIL, for calls that wait or take long. Raises
    OSError if there is no driver.
    """
    return CDLL(library_name())


@cache
def quick_library() -> PyDLL:
    """Load the same functions without releasing the GIL, for calls of about a microsecond."""
    return PyDLL(library_name())
