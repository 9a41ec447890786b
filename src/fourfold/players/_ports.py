"""What goes in and out of a plan: the shortest way between arrays and the device's buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.plan import Plan, Port
from fourfold.players import binding as cl

ALIGNED = 16  # bytes that the address of an array is a multiple of, for kernels to read it there
Lead = Callable[[int], None]


class Ports:
    """The inputs and outputs of a plan on one queue.

    A CPU's buffers are host memory: they stay mapped, and arrays are copied there and back without
    the driver. An input is not even copied: kernels are told where the caller's array lies. So do
    host buffers, which a GPU's kernels reach by their addresses. For other GPUs with memory of
    their own, host memory is set aside that the copy engine can reach by itself. Everything else is
    copied by the driver, from and to the caller's arrays.
    """

    def __init__(
        self,
        context: cl.Context,
        queue: cl.Queue,
        info: DeviceInfo,
        plan: Plan,
        buffers: Sequence[cl.Buffer],
    ) -> None:
        self._context, self._queue, self._plan, self._buffers = context, queue, plan, buffers
        self._host: dict[int, np.ndarray] = {}
        # Only a persistent kernel counts the steps of its pointers in bytes.
        self._led = info.is_cpu and all(launch.stages > 1 for launch in plan.launches)
        self._mapped: list[tuple[cl.Buffer, cl.Memory]] = []
        self._leads: dict[int, list[Lead]] = {}
        self._places: dict[int, int] = {}
        self._direct = {
            number
            for number, buffer in enumerate(plan.buffers)
            if info.is_cpu or buffer.kind == "host"
        }
        if info.is_cpu or (info.kind == "gpu" and not info.unified_memory):
            for port in (*plan.inputs, *plan.outputs):
                if port.buffer not in self._host and port.type.elements:
                    self._host[port.buffer] = self._map(port)

    def _map(self, port: Port) -> np.ndarray:
        """Host memory of a port: the buffer's own, or a piece to copy through."""
        buffer = self._buffers[port.buffer]
        if port.buffer not in self._direct:
            buffer = cl.Buffer(self._context, port.type.bytes, host=True)
        memory = self._queue.map(buffer, port.type.bytes)
        self._mapped.append((buffer, memory))
        return np.frombuffer(memory, port.type.dtype.numpy).reshape(port.type.shape)

    def is_led(self, buffer: int) -> bool:
        """Whether kernels read this buffer by an address that may be another one in each run."""
        outputs = {port.buffer for port in self._plan.outputs}
        inputs = {port.buffer for port in self._plan.inputs}
        return self._led and buffer in self._host and buffer in inputs - outputs

    def lead(self, buffer: int, tell: Lead) -> None:
        """Tell a kernel where a buffer is, from now on whenever that changes."""
        self._leads.setdefault(buffer, []).append(tell)
        self._places[buffer] = self.address(buffer)
        tell(self._places[buffer])

    def address(self, buffer: int) -> int:
        """Where the host memory of a buffer is."""
        return self._host[buffer].ctypes.data

    def poison(self, buffer: int, pattern: bytes) -> None:
        """Fill a host buffer with some bytes, again and again."""
        flat = self._host[buffer].reshape(-1).view(np.uint8)
        flat[:] = np.resize(np.frombuffer(pattern, np.uint8), flat.size)

    def put(self, arrays: Sequence[np.ndarray]) -> None:
        """Bring arrays to the device."""
        for port, array in zip(self._plan.inputs, arrays, strict=True):
            host = self._host.get(port.buffer)
            if port.buffer in self._leads and self._read_there(port.buffer, array):
                continue
            if host is not None:
                np.copyto(host, array)
                array = host
            if array.size and port.buffer not in self._direct:
                self._queue.write(self._buffers[port.buffer], array, wait=False)

    def _read_there(self, buffer: int, array: np.ndarray) -> bool:
        """Let kernels read an array where it lies, or else where a copy of it goes."""
        place = array.__array_interface__["data"][0]
        fits = place % ALIGNED == 0 and array.flags.c_contiguous
        self._tell(buffer, place if fits else self.address(buffer))
        return fits

    def forget(self) -> None:
        """Let kernels read memory of their own: arrays of a run may be gone after it."""
        for buffer in self._leads:
            self._tell(buffer, self.address(buffer))

    def _tell(self, buffer: int, place: int) -> None:
        if place != self._places[buffer]:
            self._places[buffer] = place
            for tell in self._leads[buffer]:
                tell(place)

    def take(self) -> list[np.ndarray]:
        """Wait for what was queued, and give the outputs as new arrays."""
        results = []
        for port in self._plan.outputs:
            result = self._host.get(port.buffer)
            if result is None:
                result = np.empty(port.type.shape, port.type.dtype.numpy)
            if result.size and port.buffer not in self._direct:
                self._queue.read(self._buffers[port.buffer], result, wait=False)
            results.append(result)
        self._queue.finish()
        return [result.copy() for result in results] if self._host else results

    def close(self) -> None:
        """Let go of host memory. A device that fails now has nothing left to lose."""
        mapped, self._mapped, self._host = self._mapped, [], {}
        with suppress(cl.Error):
            for buffer, memory in mapped:
                self._queue.unmap(buffer, memory)
            self._queue.finish()

    def __del__(self) -> None:
        if getattr(self, "_mapped", None):
            self.close()
