"""What goes in and out of a plan: the shortest way between arrays and the device's buffers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.plan import Plan, Port
from fourfold.players import binding as cl


class Ports:
    """The inputs and outputs of a plan on one queue.

    A CPU's buffers are host memory: they stay mapped, and an array is copied there and back without
    the driver. For a GPU with memory of its own, host memory is set aside that its copy engine can
    reach by itself. Everything else is copied by the driver, from and to the caller's arrays.
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
        self._direct = info.is_cpu
        if info.is_cpu or (info.kind == "gpu" and not info.unified_memory):
            for port in (*plan.inputs, *plan.outputs):
                if port.buffer not in self._host and port.type.elements:
                    self._host[port.buffer] = self._map(port)

    def _map(self, port: Port) -> np.ndarray:
        """Host memory of a port: the buffer's own on a CPU, else a piece to copy through."""
        buffer = self._buffers[port.buffer]
        if not self._direct:
            buffer = cl.Buffer(self._context, port.type.bytes, host=True)
        memory = self._queue.map(buffer, port.type.bytes)
        self._mapped.append((buffer, memory))
        return np.frombuffer(memory, port.type.dtype.numpy).reshape(port.type.shape)

    def put(self, arrays: Sequence[np.ndarray]) -> None:
        """Bring arrays to the device."""
        for port, array in zip(self._plan.inputs, arrays, strict=True):
            host = self._host.get(port.buffer)
            if host is not None:
                np.copyto(host, array)
                array = host
            if array.size and not self._direct:
                self._queue.write(self._buffers[port.buffer], array, wait=False)

    def take(self) -> list[np.ndarray]:
        """Wait for what was queued, and give the outputs as new arrays."""
        results = []
        for port in self._plan.outputs:
            result = self._host.get(port.buffer)
            if result is None:
                result = np.empty(port.type.shape, port.type.dtype.numpy)
            if result.size and not self._direct:
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
