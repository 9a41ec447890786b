"""Runs in flight: begun one after the other, each in a slot of its own, and ended in that order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from fourfold.backends import Slot
from fourfold.backends.chunked_copy import copied
from fourfold.errors import FourfoldError
from fourfold.support.lazy import lazy_import
from fourfold.support.log import Log

log = Log("runtime")
asyncio = lazy_import("asyncio")
Results = dict[str, np.ndarray]


class Flight:
    """One run in flight. Any thread may wait for it, and all get the same results."""

    def __init__(self, slot: Slot, names: Sequence[str], give_back: Callable[[Flight], None]):
        self._slot, self._names, self._give_back = slot, names, give_back
        self._lock = threading.Lock()
        self._results: Results | None = None
        self._error: BaseException | None = None

    @property
    def slot(self) -> Slot:
        return self._slot

    @property
    def done(self) -> bool:
        """Whether its results are there."""
        return self._results is not None or self._error is not None or self._slot.done

    def wait(self) -> None:
        """Wait until it has ended, well or not; its slot is free then. `result` tells how."""
        try:
            self.result()
        except (FourfoldError, MemoryError) as error:  # whoever asks for the result gets it, too
            log.debug("a run in flight failed: %s", error)

    def result(self, spin: bool = False) -> Results:
        """Its results, or what went wrong."""
        with self._lock:
            if self._results is not None:
                return self._results
            if self._error is not None:
                raise self._error
            try:
                arrays = [copied(one) for one in self._slot.end(spin)]
                self._results = dict(zip(self._names, arrays, strict=True))
            except BaseException as error:  # of any kind: whoever else waits gets it, too
                self._error = error
                raise
            finally:
                self._give_back(self)
            return self._results


class RunsInFlight:
    """The slots of a model that is ready. `begin` is for one thread at a time."""

    def __init__(
        self,
        open_slot: Callable[[], Slot],
        names: Sequence[str],
        after_run: Callable[[], None],
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Where memory `is_full`, no more slots are opened as long as there is one to wait for."""
        self._open_slot, self._names, self._after_run = open_slot, names, after_run
        self._is_full = is_full
        self._lock = threading.Lock()
        self._free: deque[Slot] = deque()
        self._flying: deque[Flight] = deque()

    def begin(self, arrays: Sequence[np.ndarray], limit: int, spin: bool = False) -> Flight:
        """Begin a run, for whose end somebody may `spin`. Where as many as `limit` are in flight,
        the first is waited for.
        """
        while (flying := tuple(self._flying)) and (len(flying) >= limit or self._lacks_slots):
            flying[0].wait()
        with self._lock:
            slot = self._free.popleft() if self._free else None
        if slot is None:
            slot = self._open_slot()
        slot.begin(arrays, spin)
        flight = Flight(slot, self._names, self._ended)
        with self._lock:
            self._flying.append(flight)
        return flight

    @property
    def _lacks_slots(self) -> bool:
        return not self._free and self._is_full()

    def _ended(self, flight: Flight) -> None:
        self._after_run()  # first, since who drains waits for those that fly, and closes then
        with self._lock:
            self._flying.remove(flight)
            self._free.append(flight.slot)

    def drain(self) -> None:
        """Wait for all."""
        for flight in tuple(self._flying):
            flight.wait()

    def close(self) -> None:
        self.drain()
        while self._free:
            self._free.popleft().close()


class RunFuture(Future[Results]):
    """The results of a run, some time: `result()` waits for them, and so does `await`. A run that
    has begun cannot be cancelled.
    """

    def __await__(self) -> Any:
        return asyncio.wrap_future(self).__await__()


class Waiter:
    """A thread that waits for runs in their order, and says so."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "fourfold-results")

    def future(self, flight: Flight) -> RunFuture:
        future = RunFuture()
        future.set_running_or_notify_cancel()
        self._thread.submit(flight.result).add_done_callback(partial(_tell, future))
        return future

    def close(self) -> None:
        self._thread.shutdown(wait=False)  # it ends when it has told what there is to tell


def _tell(future: RunFuture, ended: Future[Results]) -> None:
    error = ended.exception()
    if error is None:
        future.set_result(ended.result())
    else:
        future.set_exception(error)


def stream(
    begin: Callable[[Any, int, bool], Flight], inputs: Iterable[Any], depth: int
) -> Iterator[Results]:
    """The results of runs in their order, with up to `depth` of them in flight."""
    flights: deque[Flight] = deque()
    try:
        for one in inputs:
            flights.append(begin(one, depth, True))
            while flights and (flights[0].done or len(flights) >= depth):
                yield flights.popleft().result(spin=True)
        while flights:
            yield flights.popleft().result(spin=True)
    finally:  # whoever stops early leaves nothing in flight
        for flight in flights:
            flight.wait()
