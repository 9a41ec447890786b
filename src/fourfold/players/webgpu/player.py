"""Plays plans by WebGPU: everything is bound once, and one submission a run holds all launches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Buffer, Plan, padded
from fourfold.players.cleanup import cleanup_on_error
from fourfold.players.protocol import Into, Outputs
from fourfold.players.timing import TimedPlayer
from fourfold.players.webgpu import binding as wg
from fourfold.players.webgpu.devices import device_of
from fourfold.players.webgpu.failures import explained
from fourfold.players.webgpu.launches import Launches, Words
from fourfold.players.webgpu.memory import USAGE, read_buffer, write_buffer
from fourfold.players.webgpu.ports import IN_AND_OUT, Ports
from fourfold.players.webgpu.program import build_modules
from fourfold.players.webgpu.shared_constants import upload_constants
from fourfold.players.webgpu.slot import DOING, Flight, Slot
from fourfold.players.webgpu.timing import time_launches

POISON = 0x7FC07FC0  # NaN as a float, and as two halves


class Player(TimedPlayer):
    """A plan made ready on one device. Not for two threads at once; the session sees to that.

    Pipelines may still be in the making when it is there: the first run waits for each of them when
    it comes to it.
    """

    def __init__(self, info: DeviceInfo, plan: Plan) -> None:
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        self._held = ExitStack()  # what is given back, the last first
        self._device = device_of(info)
        started = time.perf_counter()
        with self._working("building the kernels"):
            entries = [launch.entry for launch in plan.launches]
            self._modules = build_modules(self._device, plan.program, entries)
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        with self._working("making the plan ready"), cleanup_on_error(self._held.close):
            self._make_ready()
        self.timings["upload"] = time.perf_counter() - started

    def _make_ready(self) -> None:
        self._shared: list[wg.Buffer | None] = []
        for buffer in self.plan.buffers:
            made = None
            if buffer.kind not in IN_AND_OUT:
                made = self._make_buffer(buffer)
                self._held.callback(made.release)
            self._shared.append(made)
        self._reset_variables()
        self._words = Words(self._device, self.plan.launches)
        self._held.callback(self._words.release)
        self._flight = self._make_flight(None)
        self._held.callback(self._flight.release)

    def _make_buffer(self, buffer: Buffer) -> wg.Buffer:
        """One that all runs have; it begins as zeros, but for constants."""
        if buffer.kind == "constants":
            return upload_constants(self._device, self.plan, buffer)
        return wg.Buffer(self._device, padded(buffer.bytes), USAGE)

    def _make_flight(self, first: Launches | None) -> Flight:
        """Memory and launches of one run in flight."""
        ports = Ports(self._device, self.plan, self._shared)
        with cleanup_on_error(ports.release):
            bound = Launches(self.plan, self._modules, self._words, ports.buffers, first)
        return Flight(self._device, ports, bound)

    def _reset_variables(self) -> None:
        for made, buffer in zip(self._shared, self.plan.buffers, strict=True):
            if made is not None and buffer.kind == "variable":
                write_buffer(made, 0, self.plan.start_of(buffer))

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """The outputs for these inputs, in the order of the plan's ports; see the protocol."""
        return self.run_bound(arrays, into)

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        with self._working(DOING):
            return self._flight.end(self._flight.begin(arrays, into), into)

    def open_slot(self, staged: bool = True) -> Slot:
        """Memory for one more run in flight; arena and constants are those of all runs."""
        with self._working("making a run in flight ready"):
            flight = self._make_flight(self._flight.launches)
        return Slot(self.info, self.plan, flight)

    def replay(self) -> None:
        """Run every launch once more on what the device already holds, and wait for it."""
        with self._working("running the model again"):
            commands = self._flight.launches.put(self._device, wg.Commands(self._device))
            self._device.wait(commands.submit())

    def reset(self) -> None:
        """Set the model's variables back to what they began with."""
        with self._working("forgetting the state"):
            self._reset_variables()

    def profile(self, arrays: Sequence[Any], runs: int) -> list[float]:
        """The shortest time of each launch in seconds: by the device's own clock, or by the host's
        where a device has none.
        """
        with self._working("timing kernels"), self._unchanged():
            commands = wg.Commands(self._device)
            self._flight.ports.put_in(commands, arrays)
            self._device.wait(commands.submit())
            return self._timed(range(len(self.plan.launches)), runs)

    def _timed(self, launches: range, runs: int) -> list[float]:
        """The shortest time of each of these launches."""
        single = [self._flight.launches.recorded([number]) for number in launches]
        rounds = [time_launches(self._device, single) for _ in range(runs)]
        return [min(times) for times in zip(*rounds, strict=True)]

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Puts variables back to what they were before."""
        pairs = zip(self._shared, self.plan.buffers, strict=True)
        variables = [
            (made, np.empty(buffer.bytes, np.uint8))
            for made, buffer in pairs
            if made is not None and buffer.kind == "variable"
        ]
        for made, saved in variables:
            read_buffer(made, 0, saved)
        yield
        for made, saved in variables:
            write_buffer(made, 0, saved)

    def binary(self) -> bytes:
        why = "wgpu-native tells nobody what the driver made of a kernel"
        raise DeviceError(
            "programs of WebGPU have no binary", why, "keep the plan: it has the text"
        )

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that a value nobody wrote is seen in the result."""
        with self._working("filling memory"):
            for made, buffer in zip(self._flight.ports.buffers, self.plan.buffers, strict=True):
                if buffer.kind in ("arena", "output"):
                    write_buffer(made, 0, np.full(made.size // 4, POISON, np.uint32))

    def close(self) -> None:
        """Give the device's memory back."""
        self._modules = {}
        with suppress(wg.Error):  # a lost device has nothing to give
            self._held.close()

    def __del__(self) -> None:
        if hasattr(self, "_held"):
            self.close()

    def _working(self, doing: str) -> AbstractContextManager[None]:
        return explained(doing, self.info, self.plan.device_bytes)
