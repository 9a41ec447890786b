"""Fork safety: in a forked child, the parent's drivers and engines have lost their threads.

A child has a copy of all memory, but only the thread that called fork. The threads of drivers and
engines are gone, and locks held by other threads stay locked forever. Therefore nothing that was
used before the fork may be called in a child, including finalizers. Objects that can start again
are reset; libraries that were used before the fork raise an error.
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


used: set[str] = set()  # APIs whose drivers are used in this process
lost: set[str] = set()  # APIs used before this process was forked: must not be called here
_resets: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def check_not_lost(api: str) -> None:
    """Raise a DeviceError in a child whose parent has used this API."""
    if api in lost:
        raise DeviceError(
            f"{api} was opened before this process was forked",
            "a forked child does not have the driver's threads and would wait for them forever",
            "start processes with 'spawn' or 'forkserver' (multiprocessing.get_context('spawn')), "
            "or open the first session and list devices only after the fork",
        )


def follow(one: T, reset: Callable[[T], None]) -> None:
    """Call `reset` with an object in every child, before anything else runs there, to reset
    state that threads of the parent may have held. The object is referenced weakly.
    """
    _resets[one] = reset


def call_in_child(function: Callable[[], None]) -> None:
    """Call a function in every child before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=function)


class ForkSafeLock:
    """Lock that is released in a child, even if a thread of the parent held it."""

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


class ForkBlockingLock:
    """Reentrant lock that fork waits for, so that no thread holds it at that time. For libraries
    with internal locks, which would stay locked forever in a child.
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


def skip_finalizer(thing: object) -> None:
    """Prevent an object's finalizer from running: it would wait for threads of the parent."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _begin_child() -> None:
    if used:
        exit_without_destructors()
    lost.update(used)
    used.clear()
    for one, reset in list(_resets.items()):
        reset(one)


@cache  # a child of the child inherits it
def exit_without_destructors() -> None:
    """End this process right after Python has ended, and flush C's buffers before that. Destructors
    of drivers and engines wait for their threads, for example those of Mesa 26 and of ONNX Runtime.
    """
    end = ctypes.pythonapi
    if hasattr(end, "on_exit") and hasattr(end, "__cxa_atexit"):  # available in glibc
        end.on_exit(end._exit, None)
        end["__cxa_atexit"](end.fflush, None, None)


call_in_child(_begin_child)
