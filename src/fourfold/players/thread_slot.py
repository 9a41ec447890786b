"""Runs in flight of somebody who has one run at a time: a thread plays them in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from fourfold.plan import Port

Play = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


class ThreadSlot:
    """One run in flight, played by a thread; see the protocol."""

    def __init__(
        self,
        play: Play,
        thread: ThreadPoolExecutor,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
    ) -> None:
        """`play` runs a model, and keeps other runs of it away meanwhile."""
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
            self._run = None  # not before: another thread may ask meanwhile whether it is done
        return self.outputs

    def close(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.exception()


def _arrays(ports: Sequence[Port]) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(port.type.shape, port.type.dtype.array_dtype) for port in ports)
