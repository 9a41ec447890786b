"""Upload inputs before a launch: to pinned memory, and large ones on to the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.players.chunked_copy import THREAD_CHUNK, ChunkedCopy, copied
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.port_memory import PortMemory
from fourfold.players.cuda.replay import Copy


class EarlyUpload:
    """Uploads one input chunk by chunk, each while the next is copied to pinned memory."""

    def __init__(self, pinned: np.ndarray, copy: Copy) -> None:
        """`copy` is the copy of the complete input from pinned memory."""
        self._copy, self._size = copy, pinned.itemsize
        self._chunks = ChunkedCopy(pinned, THREAD_CHUNK)

    def put(self, given: object, stream: cu.Stream) -> None:
        """Submit the upload to a stream; anything but an array is in pinned memory already."""
        target, source, size = self._copy
        if not isinstance(given, np.ndarray):
            stream.copy(target, source, size)
            return
        for start, stop in self._chunks.copy(given):
            first, last = start * self._size, stop * self._size
            stream.copy(target + first, source + first, last - first)


class Uploads:
    """Uploads of the inputs that kernels do not fetch themselves. `copies` are those of large
    inputs from pinned memory, which a run may leave out.
    """

    def __init__(self, ports: PortMemory) -> None:
        self._inputs, waited_for = ports.inputs, ports.waited_for()
        self._numbers = [n for n in range(len(ports.inputs)) if n not in waited_for]
        large = ports.large_copies()
        self.copies = tuple(large.values())
        self._early = {n: EarlyUpload(ports.inputs[n], copy) for n, copy in large.items()}

    def put(self, arrays: Sequence[object], stream: cu.Stream, early: bool) -> None:
        """Copy the arrays to pinned memory, and with `early` large ones also to the device."""
        for number in self._numbers:
            array = arrays[number]
            if early and number in self._early:
                self._early[number].put(array, stream)
            elif isinstance(array, np.ndarray):
                copied(array, self._inputs[number])

    def release(self) -> None:
        """Release the pinned memory."""
        self._inputs, self._early = (), {}
