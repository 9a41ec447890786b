"""What holds in a forked child: drivers and engines of the parent have no threads there any more.

A child has a copy of all memory and one thread: that which forked. A driver's or an engine's own
threads are gone, locks of other threads stay locked for ever. So nothing of them may be called in
a child, finalisers included. What can begin anew does so; what was called before cannot.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from fourfold.errors import DeviceError

T = TypeVar("T")


class Lock(Protocol):
    """threading.Lock or RLock."""

    def acquire(self) -> bool: ...
    def release(self) -> None: ...


used: set[str] = set()  # APIs whose drivers are at work in this process
lost: set[str] = set()  # those that were at work before it was forked: never to be called here
_begin_anew: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def check_not_lost(api: str) -> None:
    """A DeviceError in a child whose parent had called this API."""
    if api in lost:
        raise DeviceError(
            f"{api} was opened before this process was forked",
            "a forked child has none of the threads that a driver runs, and would wait for them "
            "for ever",
            "start processes by 'spawn' or 'forkserver', as multiprocessing.get_context('spawn') "
            "does, or open the first session and list devices after the fork only",
        )


def follow(one: T, begin_anew: Callable[[T], None]) -> None:
    """Let an object begin anew in every child, before anything else is done there, without what
    threads of the parent may hold of it; for as long as it is held itself.
    """
    _begin_anew[one] = begin_anew


def call_in_child(function: Callable[[], None]) -> None:
    """Call a function in every child, before anything else there."""
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=function)


class ForkSafeLock:
    """A lock that a child finds open, whoever held it in the parent."""

    def __init__(self, make: Callable[[], Lock] = threading.Lock) -> None:
        self._make = make
        self._renew()
        follow(self, ForkSafeLock._renew)

    def _renew(self) -> None:
        self._lock = self._make()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


class LockOverForks:
    """A lock that a process waits for before it forks, so that no thread is at work under it then:
    for libraries with locks of their own, which a child would find locked for ever. A thread may
    take it again while it holds it.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(
                before=self.__enter__, after_in_parent=self.__exit__, after_in_child=self._renew
            )

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


def leave_behind(thing: object) -> None:
    """Never finalise an object: threads that its finaliser waits for are the parent's."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _begin_child() -> None:
    if used:
        end_without_destructors()
    lost.update(used)
    used.clear()
    for one, begin_anew in list(_begin_anew.items()):
        begin_anew(one)


@cache  # a child of the child has it from there
def end_without_destructors() -> None:
    """Let this process end when Python has ended: destructors of drivers and engines wait for their
    threads, as those of Mesa 26 and of ONNX Runtime do. What C has buffered is written out before.
    """
    end = ctypes.pythonapi
    if hasattr(end, "on_exit") and hasattr(end, "__cxa_atexit"):  # as glibc has them
        end.on_exit(end._exit, None)
        end["__cxa_atexit"](end.fflush, None, None)


call_in_child(_begin_child)
