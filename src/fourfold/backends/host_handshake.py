"""Copy inputs while a kernel already waits for them, and poll the kernel's completion flag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from fourfold.backends.chunked_copy import ChunkedCopy
from fourfold.plan.host_protocol import DONE, LATE, PIECE, READY, pieces

CHUNK = 32 * PIECE  # bytes copied before the kernel is notified of them
MAX_POLLS = 40000  # polls of the completion flag (about a millisecond); then block in the driver


class Queue(Protocol):
    """Queue that kernels are launched on."""

    def finish(self) -> None:
        """Wait for all submitted work."""


class HostHandshake:
    """The flags of a plan's host protocol, and the host memory of its inputs in port order."""

    def __init__(self, queue: Queue, memory: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
        self._queue = queue
        # Each input has a map from copied elements to the number of pieces that are then ready.
        self._inputs: list[tuple[ChunkedCopy, dict[int, int]]] = []
        self._pieces = 0
        for host in inputs:
            chunks, before = ChunkedCopy(host, CHUNK), self._pieces
            ready = {stop: before + pieces(stop * host.itemsize) for _, stop in chunks.spans}
            self._inputs.append((chunks, ready))
            self._pieces += pieces(host.nbytes)
        memory[:] = 0
        self._flags = memory.data.cast("I")
        self._flags[READY] = self._pieces  # a launch without arrays does not wait
        self._running = False  # whether a kernel may still read the flags

    def launch_and_copy(self, arrays: Sequence[object], launch: Callable[[], None]) -> None:
        """Launch, and copy arrays meanwhile; entries that are not arrays are already on the device.

        The driver starts the launch by itself, at the latest when it is asked to wait.
        """
        if self._running:
            self._queue.finish()
        flags = self._flags
        flags[READY] = flags[DONE] = flags[LATE] = 0
        self._running = True
        try:
            launch()
            for (chunks, ready), array in zip(self._inputs, arrays, strict=True):
                if isinstance(array, np.ndarray):
                    for _, stop in chunks.copy(array):
                        flags[READY] = ready[stop]
        finally:  # kernels must not wait forever if something fails
            flags[READY] = self._pieces

    def launch(self, launch: Callable[[], None]) -> None:
        """Launch a run that reads nothing from the host."""
        if self._running:
            self._queue.finish()
        self._flags[DONE] = 0
        self._running = True
        launch()

    def wait(self) -> bool:
        """Wait for the kernel; returns False if it timed out waiting for its inputs."""
        flags = self._flags
        for _ in range(MAX_POLLS):
            if flags[DONE]:
                break
        else:
            self._queue.finish()
        self._running, late = False, flags[LATE]
        flags[DONE] = flags[LATE] = 0
        return not late
