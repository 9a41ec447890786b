"""Runs in flight for players that run one at a time: a thread executes them in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from fourfold.plan import Port

Play = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


class ThreadSlot:
    """One run in flight, executed by a thread; see `protocol.Slot`."""

    def __init__(
        self,
        play: Play,
        thread: ThreadPoolExecutor,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
    ) -> None:
        """`play` runs a model and excludes other runs of it meanwhile."""
        self._play, self._thread = play, thread
        self.inputs, self.outputs = _arrays(inputs), _arrays(outputs)
        self._run: Future[Sequence[np.ndarray]] | None = None

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        for own, array in zip(self.inputs, arrays, strict=True):
            if array is not None:
                np.copyto(own, array)
        self._run = self._thread.submit(self._play, self.inputs)

    @property
    def done(self) -> bool:
        return self._run is None or self._run.done()

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        if self._run is not None:
            self.outputs = tuple(self._run.result())
            self._run = None  # not earlier: another thread may check `done` meanwhile
        return self.outputs

    def close(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.exception()


def _arrays(ports: Sequence[Port]) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(port.type.shape, port.type.dtype.array_dtype) for port in ports)
