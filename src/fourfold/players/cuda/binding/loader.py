"""The driver's library, loaded in two ways."""

from __future__ import annotations

from ctypes import CDLL, PyDLL
from functools import cache

from fourfold.players.cuda.driver import library_name


@cache
def library() -> CDLL:
    """Its functions let other threads run: for calls that wait or take long. OSError where there is
    no driver.
    """
    return CDLL(library_name())


@cache
def quick_library() -> PyDLL:
    """The same functions, which keep other threads waiting: for calls of a microsecond."""
    return PyDLL(library_name())
