"""Inputs handed over while a kernel already waits for them, and its word that it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fourfold.plan.host_protocol import DONE, LATE, PIECE, READY, pieces
from fourfold.players.chunked_copy import ChunkedCopy
from fourfold.players.opencl import binding as cl

BAND = 32 * PIECE  # bytes that are copied before the kernel is told of them
LOOKS = 40000  # for the word that the kernel is done, a millisecond; then the driver waits


class HostHandshake:
    """The words of a plan, and the host memory of its inputs in the order in which they go in."""

    def __init__(self, queue: cl.Queue, memory: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
        self._queue = queue
        self._inputs = [
            (ChunkedCopy(host, BAND), host.itemsize, pieces(host.nbytes)) for host in inputs
        ]
        memory[:] = 0
        self._words = memory.data.cast("I")
        self._pieces = sum(count for *_, count in self._inputs)
        self._words[READY] = self._pieces  # a launch that nothing is given to does not wait
        self._open = False  # whether a kernel may still read the words

    def give(self, arrays: Sequence[np.ndarray], launch: Callable[[], None]) -> None:
        """Launch, and hand arrays over meanwhile. The driver begins with a launch by itself, and at
        the latest when it is asked to wait.
        """
        if self._open:
            self._queue.finish()
        words, ready = self._words, 0
        words[READY] = words[DONE] = words[LATE] = 0
        self._open = True
        try:
            launch()
            for (bands, size, count), array in zip(self._inputs, arrays, strict=True):
                for _, stop in bands.copy(array):
                    words[READY] = ready + pieces(stop * size)
                ready += count
        finally:  # whatever went wrong, kernels must not wait for ever
            words[READY] = self._pieces

    def settle(self) -> bool:
        """Wait for the kernel; says whether it had all of its inputs in time."""
        words = self._words
        for _ in range(LOOKS):
            if words[DONE]:
                break
        else:
            self._queue.finish()
        self._open, late = False, words[LATE]
        words[DONE] = words[LATE] = 0
        return not late
