"""Inputs copied while a kernel already waits for them, and its flag that it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from fourfold.plan.host_protocol import DONE, LATE, PIECE, READY, pieces
from fourfold.players.chunked_copy import ChunkedCopy

CHUNK = 32 * PIECE  # bytes that are copied before the kernel is told of them
MOST_POLLS = 40000  # of the flag that the kernel is done, a millisecond; then the driver waits


class Queue(Protocol):
    """What kernels are launched on."""

    def finish(self) -> None:
        """Wait for all that was put in."""


class HostHandshake:
    """The flags of a plan's host protocol, and the host memory of its inputs in the order in which
    they go in.
    """

    def __init__(self, queue: Queue, memory: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
        self._queue = queue
        # Each with how many pieces are there when it is copied up to an element.
        self._inputs: list[tuple[ChunkedCopy, dict[int, int]]] = []
        self._pieces = 0
        for host in inputs:
            chunks, before = ChunkedCopy(host, CHUNK), self._pieces
            there = {stop: before + pieces(stop * host.itemsize) for _, stop in chunks.spans}
            self._inputs.append((chunks, there))
            self._pieces += pieces(host.nbytes)
        memory[:] = 0
        self._flags = memory.data.cast("I")
        self._flags[READY] = self._pieces  # a launch that nothing is given to does not wait
        self._running = False  # whether a kernel may still read the flags

    def launch_and_copy(self, arrays: Sequence[object], launch: Callable[[], None]) -> None:
        """Launch, and copy arrays meanwhile; what is no array is there already. The driver begins
        with a launch by itself, and at the latest when it is asked to wait.
        """
        if self._running:
            self._queue.finish()
        flags = self._flags
        flags[READY] = flags[DONE] = flags[LATE] = 0
        self._running = True
        try:
            launch()
            for (chunks, there), array in zip(self._inputs, arrays, strict=True):
                if isinstance(array, np.ndarray):
                    for _, stop in chunks.copy(array):
                        flags[READY] = there[stop]
        finally:  # whatever went wrong, kernels must not wait for ever
            flags[READY] = self._pieces

    def launch(self, launch: Callable[[], None]) -> None:
        """Launch a run that reads nothing of the host's."""
        if self._running:
            self._queue.finish()
        self._flags[DONE] = 0
        self._running = True
        launch()

    def wait(self) -> bool:
        """Wait for the kernel; says whether it had all of its inputs in time."""
        flags = self._flags
        for _ in range(MOST_POLLS):
            if flags[DONE]:
                break
        else:
            self._queue.finish()
        self._running, late = False, flags[LATE]
        flags[DONE] = flags[LATE] = 0
        return not late
