"""Slot: one run in flight, with buffers and staging memory of its ports, and its launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from ctypes import c_uint64
from typing import Any

import numpy as np

from fourfold.backends.chunked_copy import copied
from fourfold.backends.cleanup import cleanup_on_error
from fourfold.backends.protocol import Outputs
from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu.failures import convert_errors
from fourfold.backends.webgpu.memory import USAGE, WebGpuMemory, whole_words
from fourfold.backends.webgpu.program import BuiltModule
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.plan import BufferUse, Launch, Plan, Port, padded

_WORDS_ALIGNED = 256  # bytes; alignment of the uniforms of a launch that every device supports
_WORDS_SIZE = 16  # bytes; their size is a multiple of this


class Words:
    """The uniforms of all launches in one buffer: one word per argument, which for a buffer is the
    number of elements to skip.
    """

    def __init__(self, device: wg.Device, launches: Sequence[Launch]) -> None:
        blocks = [
            np.array([_word(one) for one in launch.arguments], np.int64) for launch in launches
        ]
        self._ranges: list[tuple[int, int]] = []
        at = 0
        for block in blocks:
            size = max(1, -(-4 * block.size // _WORDS_SIZE)) * _WORDS_SIZE
            self._ranges.append((at, size))
            at += -(-size // _WORDS_ALIGNED) * _WORDS_ALIGNED
        data = np.zeros(max(at, _WORDS_ALIGNED) // 4, np.int32)
        for block, (start, _) in zip(blocks, self._ranges, strict=True):
            data[start // 4 : start // 4 + block.size] = block.astype(np.int32)
        self._buffer = wg.Buffer(device, data.nbytes, wg.UNIFORM | wg.COPY_TARGET)
        assert self._buffer.pointer is not None
        device.write(self._buffer.pointer, 0, data)

    def bound(self, number: int) -> wg.Bound:
        return wg.Bound(self._buffer, *self._ranges[number])

    def release(self) -> None:
        self._buffer.release()


def _word(argument: BufferUse | int) -> int:
    return argument.offset if isinstance(argument, BufferUse) else argument


class Launches:
    """Every launch of a plan, bound to the buffers of one run in flight.

    Launches that use none of its own buffers share the bind group of the `first` run.
    """

    def __init__(
        self,
        plan: Plan,
        modules: dict[str, BuiltModule],
        words: Words,
        buffers: Sequence[wg.Buffer],
        first: Launches | None = None,
    ) -> None:
        self._plan, self._modules, self._words, self._buffers = plan, modules, words, buffers
        self._own: list[wg.BindGroup] = []
        self._all_launches: wg.Recording | None = None  # set once all pipelines are ready
        with cleanup_on_error(self.release):
            self.groups = [self._group(number, first) for number in range(len(plan.launches))]

    def _group(self, number: int, first: Launches | None) -> wg.BindGroup:
        launch = self._plan.launches[number]
        module = self._modules[launch.entry]
        uses = [launch.arguments[bind.argument] for bind in module.module.binds]
        assert all(isinstance(use, BufferUse) for use in uses), launch
        numbers = [use.buffer for use in uses if isinstance(use, BufferUse)]
        if first is not None and all(self._buffers[n] is first._buffers[n] for n in numbers):
            return first.groups[number]
        buffers = [self._buffers[n] for n in numbers]
        bound = [self._words.bound(number), *(wg.Bound(one, 0, one.size) for one in buffers)]
        self._own.append(wg.BindGroup(module.device, module.layout, bound))
        return self._own[-1]

    def recorded(self, launches: Sequence[int]) -> wg.Recording:
        """Record some launches, by number; waits for their pipelines."""
        recording = wg.Recording()
        for number in launches:
            launch = self._plan.launches[number]
            padding = [1] * (3 - len(launch.grid))
            sizes = zip(launch.grid, launch.local, strict=True)
            groups = [*(size // by for size, by in sizes), *padding]
            recording.add(self._modules[launch.entry].pipeline(), self.groups[number], groups)
        return recording

    def put(self, device: wg.Device, commands: wg.Commands) -> wg.Commands:
        """Submit all launches. If a pipeline is not ready yet, the launches before it start
        meanwhile.

        Returns the commands that subsequent work is added to.
        """
        if self._all_launches is None:
            for part in self._parts():
                commands.launch(self.recorded(part))
                if part[-1] + 1 < len(self._plan.launches):
                    commands.submit()
                    commands = wg.Commands(device)
            self._all_launches = self.recorded(range(len(self._plan.launches)))
        else:
            commands.launch(self._all_launches)
        return commands

    def _parts(self) -> Iterator[range]:
        """Yield ranges of launches whose pipelines are ready, waiting for the first of each."""
        entries = [self._modules[launch.entry] for launch in self._plan.launches]
        start = 0
        while start < len(entries):
            entries[start].pipeline()
            end = start + 1
            while end < len(entries) and entries[end].ready:
                end += 1
            yield range(start, end)
            start = end

    def release(self) -> None:
        for group in self._own:
            group.release()
        self._own, self._all_launches = [], None


PORT_KINDS = ("input", "output")
_ALIGNED = 8  # bytes; alignment of a port in staging memory


class _Staged(wg.Staging):
    """Ports side by side in staging memory."""

    def __init__(self, device: wg.Device, ports: Sequence[Port], upload: bool) -> None:
        self._ports = ports
        self.offsets: list[int] = []
        at = 0
        for port in ports:
            self.offsets.append(at)
            at += -(-port.type.bytes // _ALIGNED) * _ALIGNED
        super().__init__(device, max(at, _ALIGNED), upload)

    def views(self) -> list[np.ndarray]:
        """Return the arrays in it, while it is mapped."""
        memory, arrays = self.bytes(), []
        for port, at in zip(self._ports, self.offsets, strict=True):
            flat = memory[at : at + port.type.bytes].view(port.type.dtype.numpy)
            arrays.append(flat.reshape(port.type.shape))
        return arrays


class Ports:
    """The buffers and the staging memory of all inputs and outputs, for one run at a time.

    Inputs are written while their memory is mapped, from the end of a run until the next begins.
    The memory of outputs is mapped at the end of a run and unmapped after reading the results.
    """

    def __init__(self, device: wg.Device, plan: Plan, shared: Sequence[wg.Buffer | None]) -> None:
        """`shared` are the buffers of the plan that all runs share; None for those of each run."""
        self._device, self._plan = device, plan
        self._own: list[wg.Buffer] = []
        with cleanup_on_error(self.release):
            self.buffers = [one or self._make(n) for n, one in enumerate(shared)]
            self._in = _Staged(device, plan.inputs, upload=True)
            self._own.append(self._in)
            self._out = _Staged(device, plan.outputs, upload=False)
            self._own.append(self._out)

    def _make(self, number: int) -> wg.Buffer:
        buffer = wg.Buffer(self._device, padded(self._plan.buffers[number].bytes), USAGE)
        self._own.append(buffer)
        return buffer

    def inputs(self) -> list[np.ndarray]:
        """Return the arrays to write inputs to, until the next run begins."""
        return self._in.views()

    def put_in(self, commands: wg.Commands, arrays: Sequence[Any]) -> None:
        """Upload inputs: arrays, or device memory; None is already in staging memory."""
        views = self._in.views()
        for view, array in zip(views, arrays, strict=True):
            if isinstance(array, np.ndarray):
                copied(array, view)
        self._in.unmap()
        for port, at, array in zip(self._plan.inputs, self._in.offsets, arrays, strict=True):
            target, size = self.buffers[port.buffer], whole_words(port.type.bytes)
            if isinstance(array, WebGpuMemory):
                commands.copy(array.buffer, 0, target, 0, size)
            else:
                commands.copy(self._in, at, target, 0, size)

    def put_out(self, commands: wg.Commands, into: Sequence[Any] | None) -> None:
        """Copy results to their targets: device memory, or staging memory."""
        self._out.unmap()
        targets = [None] * len(self._plan.outputs) if into is None else into
        pairs = zip(self._plan.outputs, self._out.offsets, targets, strict=True)
        for port, at, target in pairs:
            source, size = self.buffers[port.buffer], whole_words(port.type.bytes)
            if isinstance(target, WebGpuMemory):
                commands.copy(source, 0, target.buffer, 0, size)
            else:
                commands.copy(source, 0, self._out, at, size)

    def ask(self) -> None:
        """Request the mapping of staging memory when the run has ended."""
        self._in.ask()
        self._out.ask()

    @property
    def done(self) -> bool:
        """Return True if the run is known to have ended."""
        return self._in.answered and self._out.answered

    def outputs(self) -> list[np.ndarray]:
        """Return the results in staging memory, until the next run begins."""
        return self._out.views()

    def take(self, into: Sequence[Any] | None) -> Outputs:
        """Return the results: as new arrays, or copied into the arrays of `into`."""
        views = self._out.views()
        if into is None:
            results: Outputs = [copied(view) for view in views]
        else:
            pairs = zip(views, into, strict=True)
            results = [_taken(view, target) for view, target in pairs]
        self._out.unmap()
        return results

    def release(self) -> None:
        for one in self._own:
            one.release()
        self._own = []


def _taken(view: np.ndarray, target: Any) -> Any:
    return copied(view, target) if isinstance(target, np.ndarray) else target


DOING = "running the model"


class Flight:
    """Starts and ends runs, one after the other: the ports, and the launches of the plan."""

    def __init__(self, device: wg.Device, ports: Ports, launches: Launches) -> None:
        self.device, self.ports, self.launches = device, ports, launches

    def begin(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> c_uint64:
        """Submit a run; returns the index to wait for."""
        commands = wg.Commands(self.device)
        self.ports.put_in(commands, arrays)
        commands = self.launches.put(self.device, commands)
        self.ports.put_out(commands, into)
        index = commands.submit()
        self.ports.ask()
        return index

    def end(self, index: c_uint64, into: Sequence[Any] | None) -> Outputs:
        """Wait for a run and return the results."""
        self.device.wait(index)
        return self.ports.take(into)

    def release(self) -> None:
        self.launches.release()
        self.ports.release()


class Slot:
    """One run in flight; see the protocol. `inputs` and `outputs` are separate arrays, since
    staging memory is not always mapped.
    """

    def __init__(self, info: DeviceInfo, plan: Plan, flight: Flight) -> None:
        self._info, self._needed, self._flight = info, plan.device_bytes, flight
        self.inputs, self.outputs = _arrays(plan.inputs), _arrays(plan.outputs)
        self._index: c_uint64 | None = None

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        self.end()  # the caller may have stopped waiting for the previous run
        for own, array in zip(self.inputs, arrays, strict=True):
            if array is not None:
                np.copyto(own, array)
        with convert_errors(DOING, self._info, self._needed):
            self._index = self._flight.begin(self.inputs, None)

    @property
    def done(self) -> bool:
        if self._index is None or self._flight.ports.done:
            return True
        with convert_errors(DOING, self._info, self._needed):
            self._flight.device.poll()
        return self._flight.ports.done

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        index = self._index
        if index is not None:
            with convert_errors(DOING, self._info, self._needed):
                self._flight.end(index, self.outputs)
            self._index = None  # not earlier: another thread may check `done` meanwhile
        return self.outputs

    def close(self) -> None:
        with suppress(FourfoldError):  # errors are reported to the waiter of the run
            self.end()
        with suppress(wg.Error):  # a lost device has nothing to free
            self._flight.release()


def _arrays(ports: Sequence[Port]) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(port.type.shape, port.type.dtype.array_dtype) for port in ports)
