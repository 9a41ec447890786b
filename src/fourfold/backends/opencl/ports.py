"""Inputs and outputs of a plan: the fastest transfer between arrays and device buffers.

By default the driver copies from and to the caller's arrays, which is right everywhere. Faster
methods depend on facts of the device:

- On a CPU whose buffers may stay mapped, arrays are copied without the driver. If its kernels
  accept pointers, inputs are not copied at all: kernels get the address of the caller's array.
- Host buffers, which kernels of a GPU access by address, stay mapped as well. Such kernels are
  launched first, and their inputs are copied meanwhile.
- Other discrete GPUs get pinned host memory, which the copy engine can access directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.backends.chunked_copy import ChunkedCopy, copied
from fourfold.backends.host_handshake import HostHandshake
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.arguments import BufferLocation, PortArguments, counts_bytes
from fourfold.backends.port_buffers import port_buffers
from fourfold.backends.protocol import Outputs
from fourfold.device import DeviceInfo
from fourfold.plan import Plan, Port
from fourfold.support.lazy import lazy_import

ALIGNED = 16  # bytes; required alignment of an array that kernels read directly
HOST = ("host", "host_protocol")  # kinds of buffers in host memory, which kernels address directly
CHUNK = 1 << 20  # bytes copied before the copy engine starts with them


class ZeroCopyInputs:
    """Inputs whose address may change in each run, and the locations of their own memory."""

    def __init__(self, arguments: PortArguments, own: Mapping[int, BufferLocation]) -> None:
        self._arguments, self._own = arguments, own

    def read_in_place(self, buffer: int, array: np.ndarray) -> bool:
        """Let kernels read an array directly if possible, else from its own memory."""
        own = self._own.get(buffer)
        if own is None:
            return False
        address = array.__array_interface__["data"][0]
        fits = address % ALIGNED == 0 and array.flags.c_contiguous
        self._arguments.move(buffer, BufferLocation(None, address) if fits else own)
        return bool(fits)

    def release_arrays(self) -> None:
        """Let kernels read their own memory: arrays of a run may be freed after it."""
        for buffer, own in self._own.items():
            self._arguments.move(buffer, own)


if TYPE_CHECKING:
    from fourfold.backends.opencl import bound_memory, device_memory
else:
    bound_memory = lazy_import("fourfold.backends.opencl.bound_memory")
    device_memory = lazy_import("fourfold.backends.opencl.device_memory")


class Ports:
    """The inputs and outputs of a plan on one queue."""

    def __init__(
        self,
        context: cl.Context,
        queue: cl.Queue,
        info: DeviceInfo,
        plan: Plan,
        buffers: Sequence[cl.Buffer],
    ) -> None:
        self._context, self._queue, self._info = context, queue, info
        self._plan, self._buffers = plan, buffers
        self._host: dict[int, np.ndarray] = {}
        self._mapped: list[tuple[cl.Buffer, cl.Memory]] = []
        kinds = [buffer.kind for buffer in plan.buffers]
        mapped = info.is_cpu and info.persistent_mapping
        self._direct = {n for n, kind in enumerate(kinds) if mapped or kind in HOST}
        tested = info.knows("self_test") and "staging" not in info.self_test
        for port in (*plan.inputs, *plan.outputs):
            is_mapped = (info.is_discrete and tested) or port.buffer in self._direct
            if is_mapped and port.buffer not in self._host and port.type.elements:
                self._host[port.buffer] = self._map(port)
        staged = {port.buffer for port in plan.inputs} & {*self._host} - self._direct
        self._chunks = {number: ChunkedCopy(self._host[number], CHUNK) for number in staged}
        self._in_place = mapped and info.host_pointers and counts_bytes(plan)
        self._host_inputs = [
            n for n, port in enumerate(plan.inputs) if kinds[port.buffer] == "host"
        ]
        self.is_bound = False  # whether kernels use memory of a caller
        self._handshake: HostHandshake | None = None
        if "host_protocol" in kinds:
            self._handshake = self._make_handshake(kinds.index("host_protocol"))

    def _map(self, port: Port) -> np.ndarray:
        """Map host memory of a port: the buffer's own, or a staging buffer."""
        buffer = self._buffers[port.buffer]
        if port.buffer not in self._direct:
            buffer = cl.Buffer(self._context, port.type.bytes, host=True)
        memory = self._queue.map(buffer, port.type.bytes)
        self._mapped.append((buffer, memory))
        return np.frombuffer(memory, port.type.dtype.numpy).reshape(port.type.shape)

    def _make_handshake(self, number: int) -> HostHandshake:
        memory = self._queue.map(self._buffers[number], self._plan.buffers[number].bytes)
        self._mapped.append((self._buffers[number], memory))
        self._host[number] = np.frombuffer(memory, np.uint8)
        inputs = [self._host[self._plan.inputs[n].buffer] for n in self._host_inputs]
        return HostHandshake(self._queue, self._host[number], inputs)

    def locations(self) -> dict[int, BufferLocation]:
        """Return the initial locations of inputs and outputs. Host memory, and memory whose address
        may change in each run, is not a buffer of the driver.
        """
        locations = {
            number: BufferLocation(self._buffers[number]) for number in port_buffers(self._plan)
        }
        for number in locations:
            if self._plan.buffers[number].kind in HOST or self._is_zero_copy(number):
                locations[number] = BufferLocation(None, self._host[number].ctypes.data)
        return locations

    def _is_zero_copy(self, buffer: int) -> bool:
        """Return True if kernels read this buffer through an address that may change
        in each run.
        """
        outputs = {port.buffer for port in self._plan.outputs}
        inputs = {port.buffer for port in self._plan.inputs}
        return self._in_place and buffer in self._host and buffer in inputs - outputs

    def follow(self, arguments: PortArguments) -> None:
        """Use these arguments to change the locations of ports."""
        locations = self.locations()
        own = {n: place for n, place in locations.items() if self._is_zero_copy(n)}
        self._zero_copy = ZeroCopyInputs(arguments, own)
        self._arguments, self._locations = arguments, locations

    def poison(self, buffer: int, pattern: bytes) -> None:
        """Fill a host buffer with a repeated pattern."""
        flat = self._host[buffer].reshape(-1).view(np.uint8)
        flat[:] = np.resize(np.frombuffer(pattern, np.uint8), flat.size)

    @cached_property
    def _bound(self) -> bound_memory.BoundMemory:
        """Created on first use: most callers bind nothing."""
        bound = bound_memory.BoundMemory(self._context, self._queue, self._info, self._plan)
        bound.follow(self._arguments, self._locations)
        return bound

    def bind(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> list[np.ndarray | None]:
        """Let kernels use device memory of the caller in subsequent runs.

        Returns the arrays that still have to be uploaded; None for inputs already in place.
        """
        self._bound.begin(arrays, into)
        self.is_bound, remaining = True, []
        for port, source in zip(self._plan.inputs, arrays, strict=True):
            if isinstance(source, device_memory.OpenCLMemory):
                source = _fetched(source, port) if self._bound.stays(port) else None
            remaining.append(source)
        return remaining

    def unbind(self) -> None:
        """Let kernels use their own memory again."""
        self._bound.begin((None,) * len(self._plan.inputs), None)
        self.is_bound = False

    def put(self, arrays: Sequence[np.ndarray | None], launch: Callable[[], None]) -> None:
        """Upload arrays and launch; in reverse order if kernels wait for their inputs."""
        if self._handshake is not None:
            self._handshake.launch_and_copy([arrays[n] for n in self._host_inputs], launch)
            return
        try:
            for port, array in zip(self._plan.inputs, arrays, strict=True):
                if array is not None and not self._zero_copy.read_in_place(port.buffer, array):
                    self._copy(port.buffer, array)
            launch()
        # Also for Ctrl-C: the driver may still read arrays that are freed soon.
        except BaseException:
            with suppress(cl.Error):
                self._queue.finish()
            raise

    def _copy(self, number: int, array: np.ndarray) -> None:
        host, buffer = self._host.get(number), self._buffers[number]
        if host is None:
            if array.size:
                self._queue.write(buffer, array, wait=False)
        elif number in self._direct:
            np.copyto(host, array)
        else:
            flat = host.reshape(-1)
            for start, stop in self._chunks[number].copy(array):
                offset = start * host.itemsize
                self._queue.write(buffer, flat[start:stop], offset, wait=False)

    def wait(self) -> bool:
        """Wait for kernels that wait for inputs; False if they timed out without them."""
        return self._handshake is None or self._handshake.wait()

    def release_arrays(self) -> None:
        """Let kernels read their own memory: arrays of a run may be freed after it."""
        self._zero_copy.release_arrays()

    def take(self, into: Sequence[Any] | None = None) -> Outputs:
        """Wait for queued work and return the outputs: as new arrays, or in `into`; None there
        skips an output.
        """
        outputs, sources = self._plan.outputs, []
        targets = [None] * len(outputs) if into is None else into
        queued = (self.is_bound and self._bound.end()) or self._handshake is None
        for port, target in zip(outputs, targets, strict=True):
            source = None if into is not None and target is None else self._source(port, target)
            if source is not None and source.size and port.buffer not in self._direct:
                self._queue.read(self._buffers[port.buffer], source, wait=False)
                queued = True
            sources.append(source)
        if queued:
            self._queue.finish()
        triples = zip(outputs, sources, targets, strict=True)
        return [self._delivered(port, source, target) for port, source, target in triples]

    def _source(self, port: Port, target: Any) -> np.ndarray | None:
        """Return the host array of an output after a run; None if it is in memory of the caller."""
        if self._is_memory(target) and not self._bound.stays(port):
            return None
        if port.buffer in self._host:
            return self._host[port.buffer]
        if isinstance(target, np.ndarray):
            return target
        return np.empty(port.type.shape, port.type.dtype.numpy)

    def _is_memory(self, target: Any) -> bool:
        """Return True if an output goes to device memory, which only bound runs use."""
        return self.is_bound and isinstance(target, device_memory.OpenCLMemory)

    def _delivered(self, port: Port, source: np.ndarray | None, target: Any) -> Any:
        """Return an output, copied to its target if necessary."""
        if source is None or source is target:
            return target
        if self._is_memory(target):
            target.write(source)
            return target
        return copied(source, target) if port.buffer in self._host else source

    def close(self) -> None:
        """Release host memory. Errors of the device are ignored."""
        mapped, self._mapped, self._host = self._mapped, [], {}
        self._handshake = None
        with suppress(cl.Error):
            for buffer, memory in mapped:
                self._queue.unmap(buffer, memory)
            self._queue.finish()

    def __del__(self) -> None:
        if getattr(self, "_mapped", None):
            self.close()


def _fetched(memory: device_memory.OpenCLMemory, port: Port) -> np.ndarray:
    array = np.empty(port.type.shape, port.type.dtype.numpy)
    memory.read(array)
    return array
