"""Memory that records which bytes were written, and who accessed them last."""

from __future__ import annotations

import numpy as np

from fourfold.backends.interpreter.races import AccessHistory

ALIGNED = 64  # bytes; alignment of a buffer, whose padding at the end belongs to it
POISON = np.frombuffer(b"\xc0\x7f\xc0\x7f", np.uint8)  # NaN as fp32, and as two fp16
_FLAGS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
WRITTEN = {size: dtype(int("01" * size, 16)) for size, dtype in _FLAGS.items()}


class CheckedMemory:
    """The bytes of a buffer, or of an array that a kernel declares.

    `cell` is the granularity of race detection in bytes: the smallest element that is accessed.
    """

    def __init__(self, size: int, cell: int, written: bool = False) -> None:
        self.size, self.cell = size, cell
        padded_size = -(-max(size, 1) // ALIGNED) * ALIGNED
        self.bytes = np.zeros(padded_size, np.uint8)
        self.flags = np.full(padded_size, written, np.uint8)
        self.flags[size:] = 1  # padding counts as written
        self.complete = written  # all bytes are written
        self._history: AccessHistory | None = None

    @property
    def history(self) -> AccessHistory:
        """Access history, created on first use."""
        if self._history is None:
            self._history = AccessHistory(self.bytes.size // self.cell)
        return self._history

    def forget(self) -> None:
        """Drop the access history: everything done so far is visible to all."""
        if self._history is not None:
            self._history.forget()

    def elements(self, dtype: np.dtype) -> np.ndarray:
        """Return the memory as elements of a type."""
        return self.bytes.view(dtype)

    def written(self, size: int) -> np.ndarray:
        """Return an array with WRITTEN[size] for each element whose bytes were all written."""
        return self.flags.view(_FLAGS[size])

    def fill(self, content: np.ndarray) -> None:
        """Copy bytes to the beginning; they count as written."""
        self.bytes[: content.nbytes] = content.reshape(-1).view(np.uint8)
        self.flags[: content.nbytes] = 1
        self.complete = bool(self.flags.all())

    def blank(self, start: int = 0, stop: int | None = None) -> None:
        """Mark bytes as unwritten, and fill them with NaN."""
        stop = self.size if stop is None else stop
        self.bytes[start:stop] = np.resize(POISON, stop - start)
        self.flags[start:stop] = 0
        self.complete = False

    def first_missing(self, size: int) -> int | None:
        """Return the first of `size` bytes that was never written."""
        missing = np.flatnonzero(self.flags[:size] == 0)
        return int(missing[0]) if missing.size else None
