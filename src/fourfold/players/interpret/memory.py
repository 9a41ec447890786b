"""Memory of which is known which bytes were ever written, and who touched them last."""

from __future__ import annotations

import numpy as np

from fourfold.players.interpret.races import AccessHistory

ALIGNED = 64  # bytes: a buffer starts at a multiple of it, and what is behind its end belongs to it
POISON = np.frombuffer(b"\xc0\x7f\xc0\x7f", np.uint8)  # NaN as a float, and as two halves
_FLAGS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
WRITTEN = {size: dtype(int("01" * size, 16)) for size, dtype in _FLAGS.items()}


class CheckedMemory:
    """The bytes of a buffer, or of an array that a kernel declares.

    `cell` is the number of bytes that are told apart when races are looked for: those of the
    smallest element that is read or written there.
    """

    def __init__(self, size: int, cell: int, written: bool = False) -> None:
        self.size, self.cell = size, cell
        room = -(-max(size, 1) // ALIGNED) * ALIGNED
        self.bytes = np.zeros(room, np.uint8)
        self.flags = np.full(room, written, np.uint8)
        self.flags[size:] = 1  # what is behind the end is there, and nobody's concern
        self.complete = written  # nothing is left to be written
        self._history: AccessHistory | None = None

    @property
    def history(self) -> AccessHistory:
        """Who touched what; made when somebody first asks."""
        if self._history is None:
            self._history = AccessHistory(self.bytes.size // self.cell)
        return self._history

    def forget(self) -> None:
        """All that was done so far can be relied on."""
        if self._history is not None:
            self._history.forget()

    def elements(self, dtype: np.dtype) -> np.ndarray:
        """All of it as elements of a type."""
        return self.bytes.view(dtype)

    def written(self, size: int) -> np.ndarray:
        """For each element of so many bytes, WRITTEN[size] where all of them were written."""
        return self.flags.view(_FLAGS[size])

    def fill(self, content: np.ndarray) -> None:
        """Put bytes at the beginning; they count as written."""
        self.bytes[: content.nbytes] = content.reshape(-1).view(np.uint8)
        self.flags[: content.nbytes] = 1
        self.complete = bool(self.flags.all())

    def blank(self, start: int = 0, stop: int | None = None) -> None:
        """Forget what was written, and make it NaN."""
        stop = self.size if stop is None else stop
        self.bytes[start:stop] = np.resize(POISON, stop - start)
        self.flags[start:stop] = 0
        self.complete = False

    def first_missing(self, size: int) -> int | None:
        """The first byte of so many that was never written."""
        missing = np.flatnonzero(self.flags[:size] == 0)
        return int(missing[0]) if missing.size else None
