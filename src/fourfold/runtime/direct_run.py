"""DirectRun: the shortest way to a result, for arrays as the model wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fourfold import backends
from fourfold.backends.cpu.protocol import Lock, Results
from fourfold.runtime.inputs import Inputs, listed
from fourfold.runtime.tensor_info import TensorInfo


class DirectRun:
    """Runs of a player from arrays to new arrays. It is nobody's to hold who is held by it: a
    session that nobody has any more is freed at once.
    """

    def __init__(
        self,
        player: backends.Player,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        lock: Lock,
        after_run: Callable[[Any], None],
    ) -> None:
        """Who holds the lock uses the player; `after_run` is told of it after each run."""
        self._player: backends.Player | None = player
        self._inputs, self._lock, self._after_run = inputs, lock, after_run
        self._names = [info.name for info in inputs]
        self._results = [info.name for info in outputs]

    def __call__(self, inputs: Inputs) -> Results | None:
        """None where something is to be said of the inputs, or done with them, first."""
        given: Sequence[Any] = listed(self._names, inputs)
        wanted = self._inputs
        if len(given) != len(wanted) or not all(map(TensorInfo.is_taken, wanted, given)):
            return None
        with self._lock:
            player = self._player
            if player is None:  # the session was closed meanwhile
                return None
            results = player.run(given)
        self._after_run(player)
        return dict(zip(self._results, results, strict=True))

    def close(self) -> None:
        """Let go of the player; the lock is held."""
        self._player = None
