"""Runs in flight: started one after the other, each in its own slot, and completed in that
order.
"""

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
    """One run in flight. Any thread may wait for it, and all threads get the same results."""

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
        """True if the results are available."""
        return self._results is not None or self._error is not None or self._slot.done

    def wait(self) -> None:
        """Wait until the run has ended and its slot is free. Errors are raised by `result` only."""
        try:
            self.result()
        except (FourfoldError, MemoryError) as error:  # `result` raises it again
            log.debug("a run in flight failed: %s", error)

    def result(self, spin: bool = False) -> Results:
        """Wait for the results and return them. Raises the error of the run if it failed."""
        with self._lock:
            if self._results is not None:
                return self._results
            if self._error is not None:
                raise self._error
            try:
                arrays = [copied(one) for one in self._slot.end(spin)]
                self._results = dict(zip(self._names, arrays, strict=True))
            except BaseException as error:  # all waiting threads raise the same error
                self._error = error
                raise
            finally:
                self._give_back(self)
            return self._results


class RunsInFlight:
    """The slots of a model instance. Only one thread at a time may call `begin`."""

    def __init__(
        self,
        open_slot: Callable[[], Slot],
        names: Sequence[str],
        after_run: Callable[[], None],
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """While memory `is_full`, no slot is opened if there is a run to wait for."""
        self._open_slot, self._names, self._after_run = open_slot, names, after_run
        self._is_full = is_full
        self._lock = threading.Lock()
        self._free: deque[Slot] = deque()
        self._flying: deque[Flight] = deque()

    def begin(self, arrays: Sequence[np.ndarray], limit: int, spin: bool = False) -> Flight:
        """Start a run. Waits for the oldest run first if `limit` runs are in flight. With `spin`,
        its waiter polls instead of blocking.
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
        self._after_run()  # before removal: `drain` waits for flying runs, and `close` follows
        with self._lock:
            self._flying.remove(flight)
            self._free.append(flight.slot)

    def drain(self) -> None:
        """Wait for all runs in flight."""
        for flight in tuple(self._flying):
            flight.wait()

    def close(self) -> None:
        self.drain()
        while self._free:
            self._free.popleft().close()


class RunFuture(Future[Results]):
    """A future for the results of a run: `result()` and `await` wait for them. A run that has
    started cannot be cancelled.
    """

    def __await__(self) -> Any:
        return asyncio.wrap_future(self).__await__()


class Waiter:
    """A thread that waits for runs in order and completes their futures."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "fourfold-results")

    def future(self, flight: Flight) -> RunFuture:
        future = RunFuture()
        future.set_running_or_notify_cancel()
        self._thread.submit(flight.result).add_done_callback(partial(_complete, future))
        return future

    def close(self) -> None:
        self._thread.shutdown(wait=False)  # the thread ends after completing all futures


def _complete(future: RunFuture, ended: Future[Results]) -> None:
    error = ended.exception()
    if error is None:
        future.set_result(ended.result())
    else:
        future.set_exception(error)


def stream(
    begin: Callable[[Any, int, bool], Flight], inputs: Iterable[Any], depth: int
) -> Iterator[Results]:
    """Yield the results of runs in order, with up to `depth` runs in flight."""
    flights: deque[Flight] = deque()
    try:
        for one in inputs:
            flights.append(begin(one, depth, True))
            while flights and (flights[0].done or len(flights) >= depth):
                yield flights.popleft().result(spin=True)
        while flights:
            yield flights.popleft().result(spin=True)
    finally:  # a caller that stops early leaves no run in flight
        for flight in flights:
            flight.wait()
