"""Plays plans on any OpenCL 1.2 device: arguments bound once, a flat list replayed, one wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Buffer, BufferUse, Launch, Plan, Program
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.devices import context_of, reason_of
from fourfold.players.opencl.images import Images
from fourfold.players.opencl.ports import HOST, Ports
from fourfold.players.opencl.program import build_text, fetch_binary
from fourfold.players.opencl.shared_constants import upload_constants
from fourfold.players.protocol import Into, Outputs

POISON = b"\xc0\x7f\xc0\x7f"  # NaN as a float, and as two halves

# Programs that some player holds: the same text is built once, for whatever sizes it runs.
_live: WeakValueDictionary[tuple[DeviceInfo, Program], cl.Program] = WeakValueDictionary()


def live_program(info: DeviceInfo, program: Program) -> cl.Program | None:
    """The program as another player of this process has it; None where none does."""
    return _live.get((info, program))


@cache
def _device_lock(info: DeviceInfo) -> threading.Lock:
    return threading.Lock()


def exclusive_run(info: DeviceInfo, plan: Plan) -> AbstractContextManager[object]:
    """What a run must hold. Groups of a persistent kernel wait for each other, so all of them must
    be on the GPU at once: two such kernels could each hold half of it and wait for ever.
    """
    return _device_lock(info) if plan.requirements.resident_groups else nullcontext()


class Player:
    """A plan made ready on one device. Not for two threads at once; the session sees to that."""

    def __init__(self, info: DeviceInfo, plan: Plan, program: cl.Program | None = None) -> None:
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        self._context = context_of(info)
        self._queue, self._images = cl.Queue(self._context), Images(self._context, info)
        self._exclusive = exclusive_run(info, plan)
        started = time.perf_counter()
        program = live_program(info, plan.program) if program is None else program
        program = build_text(self._context, plan.program) if program is None else program
        self._program: cl.Program | None = program
        _live[info, plan.program] = program
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        self._guard("uploading the weights", self._upload)
        self._guard("setting host memory aside", self._map_ports)
        self._guard("binding the kernels", self._bind_all)
        self.timings["upload"] = time.perf_counter() - started

    def _upload(self) -> None:
        self._buffers: list[cl.Buffer] = []
        for buffer in self.plan.buffers:
            if buffer.bytes > self.info.max_allocation:
                raise DeviceError(
                    f"buffer '{buffer.name}' needs {buffer.bytes} bytes at once",
                    f"{self.info.name} allows {self.info.max_allocation}",
                    "use precision='mixed', a smaller input shape, or another device",
                )
            if buffer.kind == "constants":
                made = upload_constants(self._context, self.plan.constants)
            elif buffer.kind in ("variable", "state"):
                start = self.plan.start_of(buffer)
                made = cl.Buffer.of(self._context, start, writable=True)
            else:
                made = cl.Buffer(self._context, buffer.allocated, host=buffer.kind in HOST)
            self._buffers.append(made)

    def _map_ports(self) -> None:
        """Host memory for what goes in and out: see Ports."""
        self._ports = Ports(self._context, self._queue, self.info, self.plan, self._buffers)

    def _bind_all(self) -> None:
        """A kernel object of its own for each launch, with every argument set once and for all."""
        self._kernels = [self._bind(launch) for launch in self.plan.launches]
        pairs = zip(self._kernels, self.plan.launches, strict=True)
        self._replay = [self._queue.call(one, launch.grid, launch.local) for one, launch in pairs]

    def _bind(self, launch: Launch) -> cl.Kernel:
        assert self._program is not None
        kernel = cl.Kernel(self._program, launch.entry)
        position = 0
        for argument in launch.arguments:
            if isinstance(argument, BufferUse):
                self._set_pointer(kernel, position, argument)
                position += 2
            else:
                kernel.set_int(position, argument)
                position += 1
        return kernel

    def _set_pointer(self, kernel: cl.Kernel, position: int, use: BufferUse) -> None:
        """A pointer comes as a buffer, or as an image of one, and a step from its start. Host
        memory is no buffer to the driver, but the step from nowhere to its address leads there.
        """
        if self._ports.is_zero_copy(use.buffer):
            kernel.set_buffer(position, None)
            set_address = partial(_set_address, kernel, position + 1, use.offset)
            self._ports.bind_address(use.buffer, set_address)
        elif use.image is not None:
            size = self.plan.buffers[use.buffer].bytes
            image, first = self._images.of(use, self._buffers[use.buffer], size)
            kernel.set_buffer(position, image)
            kernel.set_int(position + 1, first)
        elif self.plan.buffers[use.buffer].kind in HOST:
            kernel.set_buffer(position, None)
            kernel.set_long(position + 1, self._ports.address(use.buffer) + use.offset)
        else:
            kernel.set_buffer(position, self._buffers[use.buffer])
            kernel.set_long(position + 1, use.offset)

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """The outputs for these inputs, in the order of the plan's ports; see the protocol."""
        results: Outputs = self._guard("running the model", lambda: self._run(arrays, into))
        return results

    def _run(self, arrays: Sequence[np.ndarray], into: Into | None) -> Outputs:
        with self._exclusive:
            self._ports.put(arrays, self._start)
            while not self._ports.wait():
                self._start()
            return self._ports.take(into)

    def _start(self) -> None:
        self._queue.replay(self._replay)

    def replay(self) -> None:
        """Run every launch once more on what the device already holds, and wait for it."""
        self._guard("running the model again", self._run_again)

    def _run_again(self) -> None:
        self._ports.release_arrays()
        with self._exclusive:
            self._queue.replay(self._replay)
            self._queue.finish()

    def reset(self) -> None:
        """Set the model's variables back to what they began with."""
        self._guard("forgetting the state", self._reset)

    def _reset(self) -> None:
        for buffer, handle in self._variables():
            self._queue.write(handle, self.plan.start_of(buffer))

    def _variables(self) -> list[tuple[Buffer, cl.Buffer]]:
        pairs = zip(self.plan.buffers, self._buffers, strict=True)
        return [(buffer, handle) for buffer, handle in pairs if buffer.kind == "variable"]

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Puts variables back to what they were before."""
        saved = [np.empty(buffer.bytes, np.uint8) for buffer, _ in self._variables()]
        for array, (_, handle) in zip(saved, self._variables(), strict=True):
            self._queue.read(handle, array)
        yield
        for array, (_, handle) in zip(saved, self._variables(), strict=True):
            self._queue.write(handle, array)

    def profile(self, arrays: Sequence[np.ndarray], runs: int) -> list[float]:
        """The shortest time of each launch in seconds, by the device's own clock."""
        best = [float("inf")] * len(self._replay)
        queue = cl.Queue(self._context, profiling=True)
        with self._exclusive, self._unchanged():
            self._ports.put(arrays, lambda: None)
            self._queue.finish()
            for _ in range(runs):
                events = [queue.timed(one) for one in self._replay]
                queue.finish()
                times = [event.seconds for event in events]
                best = [min(pair) for pair in zip(best, times, strict=True)]
        return best

    def binary(self) -> bytes:
        """The program's binary, best asked for after a run: PoCL compiles kernels when they run."""
        if self._program is None:
            raise DeviceError("there is no program any more", "close() was called", "ask before")
        return fetch_binary(self._program)

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that a value nobody wrote is seen in the result."""
        outputs = {port.buffer for port in self.plan.outputs}
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "host" and number in outputs:
                self._ports.poison(number, POISON)
            elif buffer.kind in ("arena", "output"):
                self._queue.fill(self._buffers[number], POISON, 0, buffer.allocated)
        self._queue.finish()

    def close(self) -> None:
        """Give the device's memory back."""
        self._replay, self._kernels = [], []
        self._program = None
        self._ports.close()
        self._images.close()
        for buffer in self._buffers:
            buffer.release()
        self._buffers = []

    def _guard(self, doing: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (cl.Error, MemoryError) as error:
            if isinstance(error, MemoryError) or error.out_of_memory:
                needed = sum(buffer.bytes for buffer in self.plan.buffers)
                raise DeviceError(
                    f"out of memory while {doing}",
                    f"the plan needs {needed} bytes; {self.info.name} has {self.info.memory}",
                    "use precision='mixed', a smaller batch, or close other sessions",
                ) from error
            fix = "try again; if it stays, try another device or driver"
            raise DeviceError(f"the device failed while {doing}", reason_of(error), fix) from error


def _set_address(kernel: cl.Kernel, position: int, offset: int, address: int) -> None:
    kernel.set_long(position, address + offset)
