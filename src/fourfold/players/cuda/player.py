"""Plays plans by CUDA: arguments bound once, all launches captured in a graph, one call a run."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from math import prod
from typing import Any

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import BufferUse, Launch, Plan
from fourfold.players.chunked_copy import copied
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.buffers import Buffers
from fourfold.players.cuda.devices import context_of
from fourfold.players.cuda.failures import explained
from fourfold.players.cuda.program import BuiltModule, build_text, hold_program, live_program
from fourfold.players.host_memory import run_through_host
from fourfold.players.protocol import Into, Outputs
from fourfold.players.timing import TimedPlayer


@cache
def _device_lock(info: DeviceInfo) -> threading.Lock:
    """Held by runs whose groups wait for each other: two of them could each have half a GPU."""
    return threading.Lock()


class Player(TimedPlayer):
    """A plan made ready on one device. Not for two threads at once; the session sees to that."""

    def __init__(self, info: DeviceInfo, plan: Plan, program: BuiltModule | None = None) -> None:
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        self._context = context_of(info)
        waits = plan.requirements.resident_groups > 0
        self._exclusive: AbstractContextManager[object] = (
            _device_lock(info) if waits else nullcontext()
        )
        started = time.perf_counter()
        with explained("loading the kernels", info):
            program = live_program(info, plan.program) if program is None else program
            program = build_text(info, plan.program) if program is None else program
        self._program: BuiltModule | None = program
        hold_program(info, plan.program, program)
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        self._held = ExitStack()  # what is given back, the last first
        with self._working("making the plan ready"):
            try:
                self._make_ready(program)
            except BaseException:
                self._held.close()
                raise
        self.timings["upload"] = time.perf_counter() - started

    def _make_ready(self, program: BuiltModule) -> None:
        self._stream = cu.Stream()
        self._held.callback(self._stream.release)
        self._buffers = Buffers(self.plan, self._stream)
        self._held.callback(self._buffers.release)
        self._handshake = self._buffers.handshake()
        self._launches = [self._bind(program.module, launch) for launch in self.plan.launches]
        self._graph = cu.Graph(self._stream, self._put_all)
        self._held.callback(self._graph.release)

    def _bind(self, module: cu.Module, launch: Launch) -> cu.Launch:
        """A kernel with its arguments: a pointer is an address and a step from there."""
        values: list[Any] = []
        for argument in launch.arguments:
            if isinstance(argument, BufferUse):
                values.append(ctypes.c_ulonglong(self._buffers.address(argument.buffer)))
                values.append(ctypes.c_longlong(argument.offset))
            else:
                values.append(ctypes.c_int(argument))
        rest = [1] * (3 - len(launch.grid))
        items = [*launch.local, *rest]
        sizes = zip([*launch.grid, *rest], items, strict=True)
        groups = [size // by for size, by in sizes]
        function = module.function(launch.entry)
        self._check_residency(function, prod(groups), prod(items))
        return cu.Launch(function, groups, items, values)

    def _check_residency(self, function: cu.Function, groups: int, items: int) -> None:
        """Groups that wait for each other must all be on the GPU at once."""
        if not self.plan.requirements.resident_groups:
            return
        most = function.groups_at_once(items) * self.info.compute_units
        if groups > most:
            why = f"{groups} groups wait for each other, and {self.info.name} holds {most} at once"
            fix = "set FOURFOLD_LAUNCHES=list"
            raise DeviceError("the plan cannot run as one launch", why, fix)

    def _put_all(self) -> None:
        self._buffers.put_in()
        self._put_launches()
        self._buffers.put_out()

    def _put_launches(self) -> None:
        for launch in self._launches:
            launch.put(self._stream)

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """The outputs for these inputs, in the order of the plan's ports; see the protocol."""
        with self._working("running the model"), self._exclusive:
            if self._handshake is None:
                self._buffers.stage(arrays)
                self._graph.launch()
                self._stream.finish()
            else:
                self._hand_over(arrays)
            return self._buffers.take(into)

    def _hand_over(self, arrays: Sequence[np.ndarray]) -> None:
        """Launch, and copy inputs while the kernel already waits for them."""
        assert self._handshake is not None
        given = self._buffers.stage(arrays)
        self._handshake.launch_and_copy(given, self._graph.launch)
        while not self._handshake.wait():
            self._graph.launch()
        if self._buffers.copies_outputs:
            self._stream.finish()  # the kernel is done before what is copied behind it

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        ports = (self.plan.inputs, self.plan.outputs)
        return run_through_host(self.run, ports, arrays, into)

    def open_slot(self, staged: bool = True) -> None:
        """There is one run at a time."""

    def replay(self) -> None:
        """Run every launch once more on what the device already holds, and wait for it."""
        with self._working("running the model again"), self._exclusive:
            self._put_launches()
            self._stream.finish()

    def reset(self) -> None:
        """Set the model's variables back to what they began with."""
        with self._working("forgetting the state"):
            self._buffers.reset()

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """The shortest time of each launch in seconds, by the device's own clock."""
        best = [float("inf")] * len(self._launches)
        with self._working("timing kernels"), self._exclusive, self._unchanged():
            asked = self._buffers.stage(arrays)
            for port, array in zip(self._buffers.host_inputs, asked, strict=True):
                copied(array, self._buffers.view(port))
            self._buffers.put_in()
            for _ in range(runs):
                times = self._timed(range(len(self._launches)))
                best = [min(pair) for pair in zip(best, times, strict=True)]
        return best

    def _timed(self, launches: range) -> list[float]:
        """What each of these launches takes, one after the other."""
        events = [cu.Event() for _ in range(len(launches) + 1)]
        try:
            events[0].record(self._stream)
            for event, number in zip(events[1:], launches, strict=True):
                self._launches[number].put(self._stream)
                event.record(self._stream)
            self._stream.finish()
            pairs = zip(events[1:], events[:-1], strict=True)
            return [event.seconds_from(first) for event, first in pairs]
        finally:
            for event in events:
                event.release()

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Puts variables back to what they were before."""
        places = self._buffers.variables()
        saved = [np.empty(size, np.uint8) for _, size in places]
        for array, (address, _) in zip(saved, places, strict=True):
            self._stream.read(address, array)
        self._stream.finish()
        yield
        for array, (address, _) in zip(saved, places, strict=True):
            self._stream.write(address, array)
        self._stream.finish()

    def binary(self) -> bytes:
        """The program's image, as `load_program` takes it."""
        if self._program is None:
            raise DeviceError("there is no program any more", "close() was called", "ask before")
        return self._program.image.pack()

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that a value nobody wrote is seen in the result."""
        with self._working("filling memory"):
            self._buffers.poison()

    def close(self) -> None:
        """Give the device's memory back."""
        self._program = self._handshake = None
        with suppress(cu.Error), self._context.current():  # a lost device has nothing to give
            self._held.close()

    def __del__(self) -> None:
        if hasattr(self, "_held"):
            self.close()

    @contextmanager
    def _working(self, doing: str) -> Iterator[None]:
        needed = sum(buffer.bytes for buffer in self.plan.buffers)
        with explained(doing, self.info, needed), self._context.current():
            yield
