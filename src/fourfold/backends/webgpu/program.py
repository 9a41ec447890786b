"""Compute pipelines, built by several threads in the order of their first use.

All players of a device share the pipelines of equal modules.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from fourfold.backends.webgpu import binding as wg
from fourfold.errors import BuildError, ModelError
from fourfold.plan import Program
from fourfold.support.forks import ForkSafeLock, call_in_child
from fourfold.support.lazy import lazy_import

MARK = "//# "  # begins a module: '//# conv2d_0 r0 r1 w3'
_WRITTEN = {"r": False, "w": True}
_MAX_THREADS = 8
# Modules that some player holds: the same text is built once for all plans.
_live: WeakValueDictionary[tuple[wg.Device, str, str], BuiltModule] = WeakValueDictionary()
_lock = ForkSafeLock()


class Bind(NamedTuple):
    """A storage buffer of a module: the number of the launch's argument, and whether
    it is written.
    """

    argument: int
    written: bool


class Module(NamedTuple):
    """The text of one entry point, and its bindings after the uniforms."""

    entry: str
    binds: tuple[Bind, ...]
    text: str


def split_modules(program: Program) -> dict[str, Module]:
    """Return the modules by entry point, in the order of the text."""
    begins = f"\n{MARK}"
    _, *parts = f"\n{program.text}".split(begins)
    modules = (_module(part) for part in parts)
    return {module.entry: module for module in modules}


def _module(part: str) -> Module:
    head, _, text = part.partition("\n")
    try:
        entry, *marks = head.split()
        binds = tuple(Bind(int(mark[1:]), _WRITTEN[mark[0]]) for mark in marks)
    except (ValueError, KeyError) as error:
        why = f"a module begins with {head!r}"
        raise ModelError("the program is damaged", why, "prepare the model again") from error
    return Module(entry, binds, text)


if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = lazy_import("concurrent.futures")


class BuiltModule:
    """The pipeline of one module, which a thread builds."""

    def __init__(self, device: wg.Device, module: Module) -> None:
        self.device, self.module = device, module
        self.layout = layout_of(device, tuple(bind.written for bind in module.binds))
        self._future: futures.Future[wg.Pipeline] = _pool().submit(self._make)

    def _make(self) -> wg.Pipeline:
        text, entry = self.module.text, self.module.entry
        try:
            return wg.Pipeline(self.device, self.layout, text, entry)
        except wg.Error as error:
            if error.lost or error.out_of_memory:
                raise
            what = f"a kernel does not build on {self.device.adapter.name}"
            raise BuildError(what, error.message, text) from error

    @property
    def ready(self) -> bool:
        return self._future.done()

    def pipeline(self) -> wg.Pipeline:
        """Wait for the pipeline; raises a BuildError if the device's compiler rejects the text."""
        return self._future.result()

    def __del__(self) -> None:
        future = getattr(self, "_future", None)
        if future is not None and not future.cancel():
            future.add_done_callback(_release)


def _release(future: Any) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().release()


def build_modules(
    device: wg.Device, program: Program, entries: Iterable[str]
) -> dict[str, BuiltModule]:
    """Start building the modules of these entry points, in this order."""
    modules = split_modules(program)
    return {entry: _built(device, modules[entry]) for entry in dict.fromkeys(entries)}


def _built(device: wg.Device, module: Module) -> BuiltModule:
    key = (device, module.entry, module.text)
    with _lock:
        built = _live.get(key)
        if built is None:
            built = _live[key] = BuiltModule(device, module)
        return built


@cache
def layout_of(device: wg.Device, written: tuple[bool, ...]) -> wg.Layout:
    """Return the layout of all modules whose buffers are read and written alike; there are few."""
    return wg.Layout(device, written)


@cache
def _pool() -> futures.ThreadPoolExecutor:
    """Return the threads that wait for the driver's compiler."""
    count = min(_MAX_THREADS, os.cpu_count() or 1)
    return futures.ThreadPoolExecutor(count, "fourfold-pipelines")


call_in_child(_pool.cache_clear)  # a child has none of the threads
