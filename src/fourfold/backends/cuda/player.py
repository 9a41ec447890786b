"""Run plans with CUDA: arguments are bound once, all launches are captured in a graph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.backends.chunked_copy import copied
from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.buffers import POISON, Buffers
from fourfold.backends.cuda.devices import context_of
from fourfold.backends.cuda.failures import ActiveContext, ConvertErrors
from fourfold.backends.cuda.memory_pool import pool_of
from fourfold.backends.cuda.port_memory import PortMemory, Uploads
from fourfold.backends.cuda.program import BuiltModule, build_text, hold_program, live_program
from fourfold.backends.cuda.replay import LastRun, LaunchBinder, Replay, launch_seconds
from fourfold.backends.host_handshake import HostHandshake
from fourfold.backends.protocol import Into, Outputs
from fourfold.backends.timing import TimedPlayer
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Plan
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.backends.cuda import bound_memory
    from fourfold.backends.cuda import bound_run as bound_runs
    from fourfold.backends.cuda import slot as slots
else:
    # Few sessions use memory of the caller or runs in flight.
    bound_memory = lazy_import("fourfold.backends.cuda.bound_memory")
    bound_runs = lazy_import("fourfold.backends.cuda.bound_run")
    slots = lazy_import("fourfold.backends.cuda.slot")


class Player(TimedPlayer):
    """A plan ready to run on one device. Not thread-safe; the session serializes calls."""

    def __init__(self, info: DeviceInfo, plan: Plan, program: BuiltModule | None = None) -> None:
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        self._context = context_of(info)
        self._handshake: HostHandshake | None = None
        self._needed = sum(buffer.bytes for buffer in plan.buffers)
        self._run_errors = ConvertErrors("running the model", info, self._context, self._needed)
        started = time.perf_counter()
        with self._convert_errors("loading the kernels"):
            program = live_program(info, plan.program) if program is None else program
            program = build_text(info, plan.program) if program is None else program
        self._program: BuiltModule | None = program
        hold_program(info, plan.program, program)
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        # Callbacks that release resources, last first.
        self._held, self._is_ready = ExitStack(), False
        with self._convert_errors("making the plan ready"), cleanup_on_error(self._give_back):
            self._make_ready(program)
        self._is_ready = True
        self.timings["upload"] = time.perf_counter() - started

    def _give_back(self) -> None:
        self._handshake = None  # it holds pinned memory
        self._held.close()

    def _make_ready(self, program: BuiltModule) -> None:
        shared = self.info.shared_queue
        self._stream = cu.Stream.of(shared) if shared else cu.Stream()
        self._held.callback(self._stream.release)
        self._last = LastRun(self._context, self._stream)
        pool = pool_of(self._context)
        pool.open()
        self._held.callback(pool.close)
        self._buffers = Buffers(self._context, self.plan, self._stream)
        self._held.callback(self._buffers.release)
        addresses = self._buffers.addresses
        self._ports = PortMemory(self._context, self.plan, addresses, staged=False)
        self._held.callback(self._ports.release)
        self._handshake = self._make_handshake()
        self._uploads = Uploads(self._ports)
        self._held.callback(self._uploads.release)
        self._binder = self._make_binder(program.module)
        self._own = Replay(self._ports.route(apart=self._uploads.copies), self._binder)
        self._held.callback(self._own.release)
        self._own.capture()

    def _make_binder(self, module: cu.Module) -> LaunchBinder:
        return LaunchBinder(self.info, self.plan, module, self._buffers.addresses)

    def _make_handshake(self) -> HostHandshake | None:
        """Return the handshake with a kernel that waits for the host; None if the plan has none."""
        flags, self._host_inputs = self._ports.flags(), self._ports.waited_for()
        inputs = [self._ports.inputs[number] for number in self._host_inputs]
        return None if flags is None else HostHandshake(self._last, flags, inputs)

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """Return the outputs for these inputs, in port order; see the protocol."""
        with self._run_errors:
            with self._context:
                self._put(arrays, self._own)
            self._wait(self._own)
            return self._ports.take(into)

    def _put(self, arrays: Sequence[Any], replay: Replay) -> None:
        """Submit a run whose inputs are arrays or already in place."""
        self._upload(arrays, replay)
        if self._handshake is None:
            self._launch(replay)

    def _upload(self, arrays: Sequence[Any], replay: Replay) -> None:
        """Copy the arrays; a kernel that waits for some of them is launched before."""
        self._uploads.put(arrays, self._stream, early=replay is self._own)
        if self._handshake is not None:
            is_subset = len(self._host_inputs) < len(arrays)
            waited_for = [arrays[number] for number in self._host_inputs] if is_subset else arrays
            self._handshake.launch_and_copy(waited_for, lambda: self._launch(replay))

    def _launch(self, replay: Replay) -> None:
        self._last.put(replay, self._stream)

    def _wait(self, replay: Replay) -> None:
        """Wait for a run; no context need be current, since a flag usually signals its end."""
        if self._handshake is None:
            self._last.finish()
            return
        while not self._handshake.wait():
            with self._context:
                self._launch(replay)
        if replay.route.after:
            self._last.finish()  # the kernel ends before the copies that follow it

    @cached_property
    def _bound(self) -> bound_memory.BoundMemory:
        """Created on first use: most callers bind nothing."""
        bound = bound_memory.BoundMemory(self.plan, self._ports, self._binder)
        self._held.callback(bound.release)
        return bound

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        """Like `run`, but inputs and targets may be device memory."""
        with self._run_errors:
            try:
                with self._context:
                    replay = self._bound.find(arrays, into, self._stream)
                    self._follow_callers(arrays, into or ())
                    self._put(arrays, replay)
                self._wait(replay)
            except BaseException:
                with suppress(cu.Error):  # kernels may still use memory that is freed soon
                    self._last.finish()
                raise
            return self._ports.take(into)

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> bound_runs.BoundRun | None:
        """Return a reusable form of `run_bound`; None if it would not be faster."""
        with self._run_errors, self._context:
            replay = self._bound.find(arrays, into, self._stream)
        if self._handshake is None or not replay.stays_on_device:
            return None
        order = bound_runs.Order(self._last, self.info, [*arrays, *into])
        return bound_runs.BoundRun(replay, order, self._last, self._handshake, self._run_errors)

    def _follow_callers(self, *given: Sequence[Any]) -> None:
        """Start after the work in the default stream, unless the stream is the caller's own."""
        if not self.info.shared_queue and any(map(bound_memory.used_by_others, chain(*given))):
            self._stream.follow_default()

    def open_slot(self, staged: bool = True) -> slots.Slot:
        """Allocate memory and launches for one more run in flight; see Slot."""
        with self._convert_errors("allocating memory"):
            ports = PortMemory(self._context, self.plan, self._buffers.addresses, staged)
            with cleanup_on_error(ports.release):
                return slots.Slot(ports, self._binder, self._slot_streams, self._convert_errors)

    @cached_property
    def _slot_streams(self) -> slots.SlotStreams:
        streams = slots.SlotStreams.of(self._last.share(), self.info)
        self._held.callback(streams.release)
        return streams

    def replay(self) -> None:
        """Run all launches again on the data already on the device, and wait."""
        with self._convert_errors("running the model again"):
            for launch in self._own.launches:
                launch.put(self._stream)
            self._stream.finish()

    def reset(self) -> None:
        """Reset the model's variables to their initial values."""
        with self._convert_errors("resetting the state"):
            self._buffers.reset()

    def profile(self, arrays: Sequence[Any], runs: int) -> list[float]:
        """Return the shortest time of each launch in seconds, by the device's clock."""
        best = [float("inf")] * len(self._own.launches)
        with self._convert_errors("timing kernels"), self._buffers.unchanged():
            for view, array in zip(self._ports.inputs, arrays, strict=True):
                if isinstance(array, np.ndarray):
                    copied(array, view)
            replay = self._bound.find(arrays, None, self._stream)
            self._follow_callers(arrays)
            for one in replay.route.before:
                self._stream.copy(*one)
            for _ in range(runs):
                times = launch_seconds(replay.launches, self._stream)
                best = [min(pair) for pair in zip(best, times, strict=True)]
        return best

    def binary(self) -> bytes:
        """Return the program's image, for `load_program`."""
        if self._program is None:
            what, why = "the session has no program any more", "close() was called"
            raise DeviceError(what, why, "get the binary before close()")
        return self._program.image.pack()

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that unwritten values show up in the result."""
        with self._convert_errors("filling memory"):
            self._buffers.poison()
            self._ports.poison(self._stream, POISON)
            self._stream.finish()

    def close(self) -> None:
        """Free the device's memory."""
        self._program = None
        with suppress(cu.Error), self._context:  # a lost device has nothing to free
            if self._is_ready:
                self._last.finish()  # a kernel that set its completion flag may not have ended
            self._give_back()

    def __del__(self) -> None:
        if hasattr(self, "_held"):
            self.close()

    def _convert_errors(self, doing: str) -> AbstractContextManager[object]:
        return ActiveContext(doing, self.info, self._context, self._needed)
