"""TracedRun: when the launches of a run were put in, and when the device ran them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from fourfold.players.protocol import ClockedPlayer


class TracedRun(NamedTuple):
    """Times of the host are those of `time.perf_counter`; those of the device are seconds, too, but
    nobody knows from when on.

    `put_in` is the host's time before and after launches were put in, between which the device's
    was `queued`, if the driver tells; `ended` is the host's time after it had waited for them, if
    it has. `launches` has begin and end of each where they are known, `notes` what stages noted.
    """

    put_in: tuple[float, float]
    queued: float | None = None
    ended: float | None = None
    launches: tuple[tuple[float, float], ...] = ()
    notes: np.ndarray | None = None


class TracedPlayer(ClockedPlayer, Protocol):
    """A player that writes the host's parts of its runs into a trace."""

    def traced_runs(self) -> list[TracedRun]:
        """All runs so far, after waiting for them; among them may be some without launches, which
        only tell how the clocks differ.
        """

    def exchange_variables(self, other: object, give: bool) -> None:
        """Take over what the model has kept in another player of it, or give it back."""
