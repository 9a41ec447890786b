"""Inputs on their way to the device before a launch: to pinned memory, and large ones beyond."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.players.chunked_copy import THREAD_CHUNK, ChunkedCopy, copied
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.port_memory import PortMemory
from fourfold.players.cuda.replay import Copy


class EarlyUpload:
    """Brings one input to the device chunk by chunk, each while the next is copied."""

    def __init__(self, pinned: np.ndarray, copy: Copy) -> None:
        """`copy` is that of all of it, out of pinned memory."""
        self._copy, self._size = copy, pinned.itemsize
        self._chunks = ChunkedCopy(pinned, THREAD_CHUNK)

    def put(self, given: object, stream: cu.Stream) -> None:
        """Put it into a stream; what is no array is in pinned memory already."""
        target, source, size = self._copy
        if not isinstance(given, np.ndarray):
            stream.copy(target, source, size)
            return
        for start, stop in self._chunks.copy(given):
            first, last = start * self._size, stop * self._size
            stream.copy(target + first, source + first, last - first)


class Uploads:
    """Of those inputs that no kernel fetches by itself. `copies` are those of large ones out of
    pinned memory, which a run may leave to it.
    """

    def __init__(self, ports: PortMemory) -> None:
        self._inputs, waited_for = ports.inputs, ports.waited_for()
        self._numbers = [n for n in range(len(ports.inputs)) if n not in waited_for]
        large = ports.large_copies()
        self.copies = tuple(large.values())
        self._early = {n: EarlyUpload(ports.inputs[n], copy) for n, copy in large.items()}

    def put(self, arrays: Sequence[object], stream: cu.Stream, early: bool) -> None:
        """Copy what are arrays, `early` those that are large on to the device, too."""
        for number in self._numbers:
            given = arrays[number]
            if early and number in self._early:
                self._early[number].put(given, stream)
            elif isinstance(given, np.ndarray):
                copied(given, self._inputs[number])

    def release(self) -> None:
        """Let go of pinned memory."""
        self._inputs, self._early = (), {}
