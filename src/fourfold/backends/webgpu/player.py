"""Run plans with WebGPU: everything is bound once, and one submission per run has all launches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.protocol import Into, Outputs
from fourfold.backends.timing import TimedPlayer
from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu.devices import device_of
from fourfold.backends.webgpu.failures import convert_errors
from fourfold.backends.webgpu.memory import USAGE, read_buffer, write_buffer
from fourfold.backends.webgpu.program import build_modules
from fourfold.backends.webgpu.slot import DOING, PORT_KINDS, Flight, Launches, Ports, Slot, Words
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Buffer, Plan, padded
from fourfold.support.forks import ForkSafeLock

CLOCK = "timestamp-query"  # feature of a device with its own clock
_MAX_TIMED_LAUNCHES = 1024  # launches timed by one submission; a query set has at most 4096 entries
# Keyed by the array's identity, since equal constants of a process are one array, and the start.
_live: WeakValueDictionary[tuple[wg.Device, int, int, int], _Upload] = WeakValueDictionary()
_lock = ForkSafeLock()
POISON = 0x7FC07FC0  # NaN as fp32, and as two fp16


def time_launches(device: wg.Device, launches: Sequence[wg.Recording]) -> list[float]:
    """Return the seconds of each launch, run one after the other."""
    if CLOCK not in device.features:
        return [_by_host(device, launch) for launch in launches]
    parts = range(0, len(launches), _MAX_TIMED_LAUNCHES)
    return [
        seconds
        for start in parts
        for seconds in _by_device(device, launches[start : start + _MAX_TIMED_LAUNCHES])
    ]


def _by_device(device: wg.Device, launches: Sequence[wg.Recording]) -> list[float]:
    count = 2 * len(launches)
    times = wg.QuerySet(device, count)
    target = wg.Buffer(device, 8 * count, wg.QUERY_RESOLVE | wg.COPY_SOURCE)
    try:
        commands = wg.Commands(device)
        for number, launch in enumerate(launches):
            commands.launch(launch, times, 2 * number)
        commands.resolve(times, target)
        commands.submit()
        ticks = np.empty((len(launches), 2), np.uint64)
        read_buffer(target, 0, ticks)
    finally:
        target.release()
        times.release()
    # The clock may stand still, but not go back.
    passed = (ticks[:, 1] - ticks[:, 0]).astype(np.int64)
    return [max(0, int(one)) * device.timestamp_seconds for one in passed]


def _by_host(device: wg.Device, launch: wg.Recording) -> float:
    device.wait()
    commands = wg.Commands(device)
    commands.launch(launch)
    began = time.perf_counter()
    device.wait(commands.submit())
    return time.perf_counter() - began


class _Upload(wg.Buffer):
    """A copy of an array. It holds the array, so that its id is not reused."""

    array: np.ndarray

    def __del__(self) -> None:
        if getattr(self, "pointer", None) is not None:
            self.release()


class SharedBuffer(wg.Buffer):
    """One player's reference to a shared buffer; the last one frees it."""

    def __init__(self, held: wg.Buffer) -> None:
        self.device, self.size, self.pointer = held.device, held.size, held.pointer
        self._held: wg.Buffer | None = held

    def release(self) -> None:
        self.pointer = self._held = None


def upload_constants(device: wg.Device, plan: Plan, buffer: Buffer) -> wg.Buffer:
    """Return the constants of a plan's buffer as already uploaded to this device, or
    upload them.
    """
    key = (device, id(plan.constants), buffer.start or 0, buffer.bytes)
    with _lock:
        held = _live.get(key)
        if held is None:
            held = _Upload(device, padded(buffer.bytes), USAGE)
            held.array = plan.constants
            write_buffer(held, 0, plan.constants_in(buffer))
            _live[key] = held
        return SharedBuffer(held)


class Player(TimedPlayer):
    """A plan ready to run on one device. Not thread-safe; the session serializes calls.

    Pipelines may still be compiling after its creation: the first run waits for each when it needs
    it.
    """

    def __init__(self, info: DeviceInfo, plan: Plan) -> None:
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        self._held = ExitStack()  # callbacks that release resources, last first
        self._device = device_of(info)
        started = time.perf_counter()
        with self._convert_errors("building the kernels"):
            entries = [launch.entry for launch in plan.launches]
            self._modules = build_modules(self._device, plan.program, entries)
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        with self._convert_errors("making the plan ready"), cleanup_on_error(self._held.close):
            self._make_ready()
        self.timings["upload"] = time.perf_counter() - started

    def _make_ready(self) -> None:
        self._shared: list[wg.Buffer | None] = []
        for buffer in self.plan.buffers:
            allocated = None
            if buffer.kind not in PORT_KINDS:
                allocated = self._make_buffer(buffer)
                self._held.callback(allocated.release)
            self._shared.append(allocated)
        self._reset_variables()
        self._words = Words(self._device, self.plan.launches)
        self._held.callback(self._words.release)
        self._flight = self._make_flight(None)
        self._held.callback(self._flight.release)

    def _make_buffer(self, buffer: Buffer) -> wg.Buffer:
        """Create a buffer that all runs share; it is zero-initialized, except for constants."""
        if buffer.kind == "constants":
            return upload_constants(self._device, self.plan, buffer)
        return wg.Buffer(self._device, padded(buffer.bytes), USAGE)

    def _make_flight(self, first: Launches | None) -> Flight:
        """Create memory and launches of one run in flight."""
        ports = Ports(self._device, self.plan, self._shared)
        with cleanup_on_error(ports.release):
            bound = Launches(self.plan, self._modules, self._words, ports.buffers, first)
        return Flight(self._device, ports, bound)

    def _reset_variables(self) -> None:
        for allocated, buffer in zip(self._shared, self.plan.buffers, strict=True):
            if allocated is not None and buffer.kind == "variable":
                write_buffer(allocated, 0, self.plan.start_of(buffer))

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """Return the outputs for these inputs, in port order; see the protocol."""
        return self.run_bound(arrays, into)

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        with self._convert_errors(DOING):
            return self._flight.end(self._flight.begin(arrays, into), into)

    def open_slot(self, staged: bool = True) -> Slot:
        """Allocate memory for one more run in flight; arena and constants are shared
        by all runs.
        """
        with self._convert_errors("preparing a run in flight"):
            flight = self._make_flight(self._flight.launches)
        return Slot(self.info, self.plan, flight)

    def replay(self) -> None:
        """Run all launches again on the data already on the device, and wait."""
        with self._convert_errors("running the model again"):
            commands = self._flight.launches.put(self._device, wg.Commands(self._device))
            self._device.wait(commands.submit())

    def reset(self) -> None:
        """Reset the model's variables to their initial values."""
        with self._convert_errors("resetting the state"):
            self._reset_variables()

    def profile(self, arrays: Sequence[Any], runs: int) -> list[float]:
        """Return the shortest time of each launch in seconds, by the device's clock, or by the
        host's if the device has none.
        """
        with self._convert_errors("timing kernels"), self._unchanged():
            commands = wg.Commands(self._device)
            self._flight.ports.put_in(commands, arrays)
            self._device.wait(commands.submit())
            return self._timed(range(len(self.plan.launches)), runs)

    def _timed(self, launches: range, runs: int) -> list[float]:
        """Return the shortest time of each of these launches."""
        single = [self._flight.launches.recorded([number]) for number in launches]
        rounds = [time_launches(self._device, single) for _ in range(runs)]
        return [min(times) for times in zip(*rounds, strict=True)]

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Context manager that restores the variables at its end."""
        pairs = zip(self._shared, self.plan.buffers, strict=True)
        variables = [
            (allocated, np.empty(buffer.bytes, np.uint8))
            for allocated, buffer in pairs
            if allocated is not None and buffer.kind == "variable"
        ]
        for allocated, saved in variables:
            read_buffer(allocated, 0, saved)
        yield
        for allocated, saved in variables:
            write_buffer(allocated, 0, saved)

    def binary(self) -> bytes:
        why = "wgpu-native does not expose compiled kernels"
        raise DeviceError(
            "WebGPU programs have no binary", why, "store the plan, which has the text"
        )

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that unwritten values show up in the result."""
        with self._convert_errors("filling memory"):
            for allocated, buffer in zip(
                self._flight.ports.buffers, self.plan.buffers, strict=True
            ):
                if buffer.kind in ("arena", "output"):
                    write_buffer(allocated, 0, np.full(allocated.size // 4, POISON, np.uint32))

    def close(self) -> None:
        """Free the device's memory."""
        self._modules = {}
        with suppress(wg.Error):  # a lost device has nothing to free
            self._held.close()

    def __del__(self) -> None:
        if hasattr(self, "_held"):
            self.close()

    def _convert_errors(self, doing: str) -> AbstractContextManager[None]:
        return convert_errors(doing, self.info, self.plan.device_bytes)
