"""TracedRun: when the launches of a run were submitted, and when the device executed them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from fourfold.backends.protocol import ClockedPlayer


class TracedRun(NamedTuple):
    """Times of one run. Host times are those of `time.perf_counter`; device times are seconds with
    an unknown origin.

    `put_in` has the host times before and after launches were submitted. `queued` is a device time
    in between, if the driver reports it. `ended` is the host time after waiting for them, if it
    did. `launches` has the start and end of each launch if known, `notes` the times that stages
    recorded.
    """

    put_in: tuple[float, float]
    queued: float | None = None
    ended: float | None = None
    launches: tuple[tuple[float, float], ...] = ()
    notes: np.ndarray | None = None


class TracedPlayer(ClockedPlayer, Protocol):
    """A player that records the host's part of its runs in a trace."""

    def traced_runs(self) -> list[TracedRun]:
        """Wait for all runs so far and return them. Some may have no launches and serve only to
        align the clocks.
        """

    def exchange_variables(self, other: object, give: bool) -> None:
        """Copy the model's variables from another player of it, or to it."""
