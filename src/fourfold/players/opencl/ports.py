"""What goes in and out of a plan: the shortest way between arrays and the device's buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.plan import Plan, Port
from fourfold.players.chunked_copy import ChunkedCopy, copied
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.host_handshake import HostHandshake
from fourfold.players.opencl.zero_copy import Lead, ZeroCopyInputs

HOST = (
    "host",
    "host_protocol",
)  # kinds of buffers that are host memory, known to kernels by address
WRITE = 1 << 20  # bytes that are copied before the copy engine begins with them


class Ports:
    """The inputs and outputs of a plan on one queue.

    A CPU's buffers are host memory: they stay mapped, and arrays are copied there and back without
    the driver. An input is not even copied: kernels are told where the caller's array lies. Host
    buffers, which a GPU's kernels reach by their addresses, stay mapped, too; such kernels are
    launched first and their inputs handed over. For other GPUs with memory of their own, host
    memory is set aside that the copy engine can reach by itself. Everything else is copied by the
    driver, from and to the caller's arrays.
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
        self._mapped: list[tuple[cl.Buffer, cl.Memory]] = []
        kinds = [buffer.kind for buffer in plan.buffers]
        self._direct = {n for n, kind in enumerate(kinds) if info.is_cpu or kind in HOST}
        copies = info.kind == "gpu" and not info.unified_memory
        for port in (*plan.inputs, *plan.outputs):
            wanted = copies or port.buffer in self._direct
            if wanted and port.buffer not in self._host and port.type.elements:
                self._host[port.buffer] = self._map(port)
        staged = {port.buffer for port in plan.inputs} & {*self._host} - self._direct
        self._bands = {number: ChunkedCopy(self._host[number], WRITE) for number in staged}
        # Only a persistent kernel counts the steps of its pointers in bytes.
        self._led = info.is_cpu and all(launch.stages > 1 for launch in plan.launches)
        self._leads = ZeroCopyInputs()
        self._given = [n for n, port in enumerate(plan.inputs) if kinds[port.buffer] == "host"]
        self._handover = (
            self._map_words(kinds.index("host_protocol")) if "host_protocol" in kinds else None
        )

    def _map(self, port: Port) -> np.ndarray:
        """Host memory of a port: the buffer's own, or a piece to copy through."""
        buffer = self._buffers[port.buffer]
        if port.buffer not in self._direct:
            buffer = cl.Buffer(self._context, port.type.bytes, host=True)
        memory = self._queue.map(buffer, port.type.bytes)
        self._mapped.append((buffer, memory))
        return np.frombuffer(memory, port.type.dtype.numpy).reshape(port.type.shape)

    def _map_words(self, number: int) -> HostHandshake:
        memory = self._queue.map(self._buffers[number], self._plan.buffers[number].bytes)
        self._mapped.append((self._buffers[number], memory))
        self._host[number] = np.frombuffer(memory, np.uint8)
        inputs = [self._host[self._plan.inputs[n].buffer] for n in self._given]
        return HostHandshake(self._queue, self._host[number], inputs)

    def is_led(self, buffer: int) -> bool:
        """Whether kernels read this buffer by an address that may be another one in each run."""
        outputs = {port.buffer for port in self._plan.outputs}
        inputs = {port.buffer for port in self._plan.inputs}
        return self._led and buffer in self._host and buffer in inputs - outputs

    def lead(self, buffer: int, tell: Lead) -> None:
        """Tell a kernel where a buffer is, from now on whenever that changes."""
        self._leads.add(buffer, self.address(buffer), tell)

    def address(self, buffer: int) -> int:
        """Where the host memory of a buffer is."""
        return self._host[buffer].ctypes.data

    def poison(self, buffer: int, pattern: bytes) -> None:
        """Fill a host buffer with some bytes, again and again."""
        flat = self._host[buffer].reshape(-1).view(np.uint8)
        flat[:] = np.resize(np.frombuffer(pattern, np.uint8), flat.size)

    def put(self, arrays: Sequence[np.ndarray], launch: Callable[[], None]) -> None:
        """Bring arrays to the device and launch, in the other order where kernels wait for them."""
        if self._handover is not None:
            self._handover.give([arrays[n] for n in self._given], launch)
            return
        for port, array in zip(self._plan.inputs, arrays, strict=True):
            if not self._leads.read_there(port.buffer, array):
                self._copy(port.buffer, array)
        launch()

    def _copy(self, number: int, array: np.ndarray) -> None:
        host, buffer = self._host.get(number), self._buffers[number]
        if host is None:
            if array.size:
                self._queue.write(buffer, array, wait=False)
        elif number in self._direct:
            np.copyto(host, array)
        else:
            flat = host.reshape(-1)
            for start, stop in self._bands[number].copy(array):
                place = start * host.itemsize
                self._queue.write(buffer, flat[start:stop], place, wait=False)

    def settle(self) -> bool:
        """Whether kernels that waited for inputs had them all; waits for such kernels."""
        return self._handover is None or self._handover.settle()

    def forget(self) -> None:
        """Let kernels read memory of their own: arrays of a run may be gone after it."""
        self._leads.forget()

    def take(self) -> list[np.ndarray]:
        """Wait for what was queued, and give the outputs as new arrays."""
        results, queued = [], self._handover is None
        for port in self._plan.outputs:
            result = self._host.get(port.buffer)
            if result is None:
                result = np.empty(port.type.shape, port.type.dtype.numpy)
            if result.size and port.buffer not in self._direct:
                self._queue.read(self._buffers[port.buffer], result, wait=False)
                queued = True
            results.append(result)
        if queued:
            self._queue.finish()
        return [copied(result) for result in results] if self._host else results

    def close(self) -> None:
        """Let go of host memory. A device that fails now has nothing left to lose."""
        mapped, self._mapped, self._host = self._mapped, [], {}
        self._handover = None
        with suppress(cl.Error):
            for buffer, memory in mapped:
                self._queue.unmap(buffer, memory)
            self._queue.finish()

    def __del__(self) -> None:
        if getattr(self, "_mapped", None):
            self.close()
