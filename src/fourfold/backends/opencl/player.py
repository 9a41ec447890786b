"""Run plans on any OpenCL 1.2 device: arguments are bound once, a flat list is replayed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.arguments import BoundKernels, Images, KernelBinder
from fourfold.backends.opencl.devices import context_of, drop_if_lost, reason_of
from fourfold.backends.opencl.launch_queue import LaunchQueue, launch_queue
from fourfold.backends.opencl.ports import HOST, Ports
from fourfold.backends.opencl.program import build_text, fetch_binary
from fourfold.backends.protocol import Into, Outputs
from fourfold.backends.shared_uploads import SharedUploads, Upload
from fourfold.backends.timing import TimedPlayer
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Buffer, Plan, Program
from fourfold.support.forks import check_not_lost
from fourfold.support.lazy import lazy_import

_uploads: SharedUploads[cl.Buffer] = SharedUploads()
POISON = b"\xc0\x7f\xc0\x7f"  # NaN as fp32, and as two fp16
# Programs that some player holds: the same text is built once, for any input sizes.
_live: WeakValueDictionary[tuple[cl.Context, Program], cl.Program] = WeakValueDictionary()


class SharedBuffer(cl.Buffer):
    """One player's reference to a shared buffer; the last one frees it."""

    def __init__(self, held: Upload[cl.Buffer]) -> None:
        self.pointer, self._held = held.memory.pointer, held

    def release(self) -> None:
        self.pointer = None
        self.__dict__.pop("_held", None)


def upload_constants(context: cl.Context, plan: Plan, buffer: Buffer) -> cl.Buffer:
    """Return the constants of a plan's buffer as already uploaded in this context, or
    upload them.
    """
    return SharedBuffer(_uploads.hold(context, plan, buffer, partial(cl.Buffer.of, context)))


if TYPE_CHECKING:
    from fourfold.backends.opencl import slot as slots
else:
    slots = lazy_import("fourfold.backends.opencl.slot")  # few sessions have runs in flight


def live_program(info: DeviceInfo, program: Program) -> cl.Program | None:
    """Return the program if another player of this process has it loaded; None otherwise."""
    return _live.get((context_of(info), program))


class Player(TimedPlayer):
    """A plan ready to run on one device. Not thread-safe; the session serializes calls."""

    def __init__(self, info: DeviceInfo, plan: Plan, program: cl.Program | None = None) -> None:
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        self._context = context_of(info)
        self._launches, self._images = self._make_queue(), Images(self._context, info)
        self._queue = self._launches.queue
        # Queues of runs in flight, created on first use.
        self._queues: slots.SlotQueues | None = None
        started = time.perf_counter()
        program = live_program(info, plan.program) if program is None else program
        program = build_text(self._context, plan.program) if program is None else program
        self._program: cl.Program | None = program
        _live[self._context, plan.program] = program
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        self._guard("uploading the weights", self._upload)
        self._guard("allocating host memory", self._map_ports)
        self._guard("binding the kernels", self._bind_all)
        self.timings["upload"] = time.perf_counter() - started

    def _make_queue(self) -> LaunchQueue:
        return launch_queue(self._context, self.plan, self.info.shared_queue)

    def _upload(self) -> None:
        self._buffers: list[cl.Buffer] = []
        for buffer in self.plan.buffers:
            if buffer.bytes > self.info.max_allocation:
                raise DeviceError(
                    f"buffer '{buffer.name}' needs {buffer.bytes} bytes in one allocation",
                    f"{self.info.name} allows {self.info.max_allocation}",
                    "use precision='mixed', a smaller input shape, or another device",
                )
            if buffer.kind == "constants":
                allocated = upload_constants(self._context, self.plan, buffer)
            elif buffer.kind in ("variable", "state"):
                start = self.plan.start_of(buffer)
                allocated = cl.Buffer.of(self._context, start, writable=True)
            else:
                allocated = cl.Buffer(self._context, buffer.allocated, host=buffer.kind in HOST)
            self._buffers.append(allocated)

    def _map_ports(self) -> None:
        """Map host memory for inputs and outputs: see Ports."""
        self._ports = Ports(self._context, self._queue, self.info, self.plan, self._buffers)

    def _bind_all(self) -> None:
        """Create a kernel object for each launch with all arguments set once, except for those of
        inputs and outputs that may be elsewhere in another run.
        """
        assert self._program is not None
        self._binder = KernelBinder(self._program, self.plan, self._images, self._buffers)
        self._bound = self._binder.bind(self._ports.locations())
        self._ports.follow(self._bound.ports)
        self._replay = self._calls(self._bound)

    def _calls(self, bound: BoundKernels) -> list[cl.Call]:
        pairs = zip(bound.kernels, self.plan.launches, strict=True)
        return [self._queue.call(kernel, launch.grid, launch.local) for kernel, launch in pairs]

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """Return the outputs for these inputs, in port order; see the protocol."""
        results: Outputs = self._guard("running the model", lambda: self._run(arrays, into))
        return results

    def _run(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> Outputs:
        if self._ports.is_bound:
            self._ports.unbind()
        return self._play(arrays, into)

    def _play(self, arrays: Sequence[np.ndarray | None], into: Sequence[Any] | None) -> Outputs:
        self._ports.put(arrays, self._start)
        while not self._ports.wait():
            self._start()
        return self._ports.take(into)

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        """Like `run`, but inputs and targets may be device memory."""

        def play() -> Outputs:
            return self._play(self._ports.bind(arrays, into), into)

        results: Outputs = self._guard("running the model", play)
        return results

    def open_slot(self, staged: bool = True) -> slots.Slot:
        """Allocate memory and kernels for one more run in flight; see Slot."""
        slot: slots.Slot = self._guard("allocating memory", lambda: self._make_slot(staged))
        return slot

    def _make_slot(self, staged: bool) -> slots.Slot:
        if self._queues is None:
            self._queues = slots.SlotQueues.of(self._context, self._launches, self.info, self.plan)
        memory = slots.SlotMemory(
            context=self._context,
            queue=self._queue,
            info=self.info,
            plan=self.plan,
            buffers=self._buffers,
            staged=staged,
        )
        bound = self._binder.bind(memory.locations(), self._bound.kernels)
        return slots.Slot(memory, self.plan, self._queues, bound, self._calls(bound), self._guard)

    def _start(self) -> None:
        self._launches.launch(self._replay)

    def replay(self) -> None:
        """Run all launches again on the data already on the device, and wait."""
        self._guard("running the model again", self._run_again)

    def _run_again(self) -> None:
        self._ports.release_arrays()
        self._start()
        self._queue.finish()

    def reset(self) -> None:
        """Reset the model's variables to their initial values."""
        self._guard("resetting the state", self._reset)

    def _reset(self) -> None:
        for buffer, handle in self._variables():
            self._queue.write(handle, self.plan.start_of(buffer))

    def _variables(self) -> list[tuple[Buffer, cl.Buffer]]:
        pairs = zip(self.plan.buffers, self._buffers, strict=True)
        return [(buffer, handle) for buffer, handle in pairs if buffer.kind == "variable"]

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Context manager that restores the variables at its end."""
        saved = [np.empty(buffer.bytes, np.uint8) for buffer, _ in self._variables()]
        for array, (_, handle) in zip(saved, self._variables(), strict=True):
            self._queue.read(handle, array)
        yield
        for array, (_, handle) in zip(saved, self._variables(), strict=True):
            self._queue.write(handle, array)

    def profile(self, arrays: Sequence[Any], runs: int) -> list[float]:
        """Return the shortest time of each launch in seconds, by the device's clock."""
        best = [float("inf")] * len(self._replay)
        queue = cl.Queue(self._context, profiling=True)
        with self._launches.alone(), self._unchanged():
            self._ports.put(self._ports.bind(arrays, None), lambda: None)
            self._queue.finish()
            for _ in range(runs):
                events = [queue.timed(one) for one in self._replay]
                queue.finish()
                times = [event.seconds for event in events]
                best = [min(pair) for pair in zip(best, times, strict=True)]
        return best

    def binary(self) -> bytes:
        """Return the program's binary, best after a run: PoCL compiles kernels when they run."""
        if self._program is None:
            raise DeviceError(
                "the session has no program any more",
                "close() was called",
                "get the binary before close()",
            )
        return fetch_binary(self._program)

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that unwritten values show up in the result."""
        outputs = {port.buffer for port in self.plan.outputs}
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "host" and number in outputs:
                self._ports.poison(number, POISON)
            elif buffer.kind in ("arena", "output"):
                self._queue.fill(self._buffers[number], POISON, 0, buffer.allocated)
        self._queue.finish()

    def close(self) -> None:
        """Free the device's memory."""
        self._replay, self._program = [], None
        self._bound.kernels.clear()
        self._ports.close()
        self._images.close()
        for buffer in self._buffers:
            buffer.release()
        self._buffers = []

    def _guard(self, doing: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (cl.Error, MemoryError) as error:
            check_not_lost(cl.API)
            if isinstance(error, cl.Error) and drop_if_lost(self.info, self._context):
                raise DeviceError(
                    f"the device was lost while {doing}",
                    f"{reason_of(error)}; its context cannot be used any more",
                    "close the open sessions on it and create a new Session",
                ) from error
            if isinstance(error, MemoryError) or error.out_of_memory:
                needed = sum(buffer.bytes for buffer in self.plan.buffers)
                raise DeviceError(
                    f"out of memory while {doing}",
                    f"the plan needs {needed} bytes; {self.info.name} has {self.info.memory}",
                    "use precision='mixed', a smaller batch, or close other sessions",
                ) from error
            fix = "try again; if it persists, try another device or driver"
            raise DeviceError(f"the device failed while {doing}", reason_of(error), fix) from error
