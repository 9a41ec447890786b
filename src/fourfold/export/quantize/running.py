"""Run graphs on samples, on a device or in NumPy, and report progress."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fourfold import backends
from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.compile import plan_graph
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, UnsupportedError
from fourfold.graph import Graph
from fourfold.options import CompileOptions
from fourfold.support.log import Log
from fourfold.support.progress import Progress
from fourfold.types import silent_arithmetic


class ProgressCounter:
    """Counts steps and reports them to a listener."""

    def __init__(self, listener: Progress | None) -> None:
        self._listener = listener
        self._done, self._total, self._began = 0, 0, time.monotonic()

    def expect(self, total: int) -> None:
        """Start new work with this number of steps."""
        self._done, self._total, self._began = 0, total, time.monotonic()

    def done(self, title: str) -> None:
        """Count one finished step."""
        self._done += 1
        if self._listener is not None:
            passed = time.monotonic() - self._began
            left = passed / self._done * max(self._total - self._done, 0)
            self._listener(self._done, self._total, title, left)


log = Log("export.quantize")
Arrays = Mapping[str, np.ndarray]
NUMPY = "cpu"  # the device name that selects NumPy


def find_runner(device: str | int | DeviceInfo | None) -> DeviceInfo | None:
    """Return the requested device or the default one; None selects NumPy."""
    if device == NUMPY:
        return None
    if device is not None:
        return backends.find_device(device)
    try:
        return backends.find_device(Config.from_environment().device)
    except DeviceError as error:
        log.info("samples run in NumPy: %s: %s", error.what, error.why)
        return None


class GraphRunner:
    """A graph compiled for a device, which is released by `close`."""

    def __init__(self, graph: Graph, device: DeviceInfo | None) -> None:
        self._graph = graph
        self._player = None if device is None else _player(graph, device)

    def run(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Return results by name, for arguments by name."""
        if self._player is None:
            with silent_arithmetic():
                return evaluate(self._graph, arrays)
        results = self._player.run([arrays[name] for name in self._graph.arguments])
        return dict(zip(self._graph.results, results, strict=True))

    def close(self) -> None:
        if self._player is not None:
            self._player.close()


def _player(graph: Graph, device: DeviceInfo) -> backends.Player | None:
    """Return a player of the graph, or None if an operator has no kernel for this device."""
    try:
        plan = plan_graph(graph, device, CompileOptions())
    except UnsupportedError as error:
        log.info("%s runs in NumPy: %s: %s", graph.name, error.what, error.why)
        return None
    program = backends.backend_of(device).live_program(device, plan.program)
    return backends.make_player(device, plan, program)


def with_outputs(graph: Graph, values: Sequence[str]) -> Graph:
    """Return the graph with these values as further outputs."""
    more = [name for name in values if not graph.is_output(name) and name in graph.producers]
    return replace(graph, outputs=(*graph.outputs, *more))
