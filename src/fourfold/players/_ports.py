"""What goes in and out of a plan: the shortest way between arrays and the device's buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from fourfold.device import DeviceInfo
from fourfold.plan import Plan, Port

_BOTH = cl.map_flags.READ | cl.map_flags.WRITE


class Ports:
    """The inputs and outputs of a plan on one queue.

    A CPU's buffers are host memory: they stay mapped, and an array is copied there and back without
    the driver. For a GPU with memory of its own, host memory is set aside that its copy engine can
    reach by itself. Everything else is copied by the driver, from and to the caller's arrays.
    """

    def __init__(self, queue: Any, info: DeviceInfo, plan: Plan, buffers: Sequence[Any]) -> None:
        self._queue, self._plan, self._buffers = queue, plan, buffers
        self._host: dict[int, np.ndarray] = {}
        self._direct = info.is_cpu
        if info.is_cpu or (info.kind == "gpu" and not info.unified_memory):
            for port in (*plan.inputs, *plan.outputs):
                if port.buffer not in self._host and port.type.elements:
                    self._host[port.buffer] = self._mapped(port)

    def _mapped(self, port: Port) -> np.ndarray:
        """Host memory of a port: the buffer's own on a CPU, else a piece to copy through."""
        shape, dtype = port.type.shape, port.type.dtype.numpy
        buffer = self._buffers[port.buffer]
        if not self._direct:
            mode = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
            buffer = cl.Buffer(self._queue.context, mode, port.type.bytes)
        array, _ = cl.enqueue_map_buffer(self._queue, buffer, _BOTH, 0, shape, dtype)
        return np.asarray(array)

    def put(self, arrays: Sequence[np.ndarray]) -> None:
        """Bring arrays to the device."""
        for port, array in zip(self._plan.inputs, arrays, strict=True):
            host = self._host.get(port.buffer)
            if host is not None:
                np.copyto(host, array)
                array = host
            if array.size and not self._direct:
                cl.enqueue_copy(self._queue, self._buffers[port.buffer], array, is_blocking=False)

    def take(self) -> list[np.ndarray]:
        """Wait for what was queued, and give the outputs as new arrays."""
        results = []
        for port in self._plan.outputs:
            result = self._host.get(port.buffer)
            if result is None:
                result = np.empty(port.type.shape, port.type.dtype.numpy)
            if result.size and not self._direct:
                cl.enqueue_copy(self._queue, result, self._buffers[port.buffer], is_blocking=False)
            results.append(result)
        self._queue.finish()
        return [result.copy() for result in results] if self._host else results

    def close(self) -> None:
        self._host = {}
