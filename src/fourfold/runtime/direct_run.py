"""DirectRun: the fast path to a result, for arrays that need no conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fourfold import backends
from fourfold.backends.cpu.protocol import Lock, Results
from fourfold.runtime.inputs import Inputs, listed
from fourfold.runtime.tensor_info import TensorInfo


class DirectRun:
    """Runs a player from arrays to new arrays. Holds no reference to the session, so that the
    session is freed when its last user drops it.
    """

    def __init__(
        self,
        player: backends.Player,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        lock: Lock,
        after_run: Callable[[Any], None],
    ) -> None:
        """`lock` protects the player; `after_run` is called with the player after each run."""
        self._player: backends.Player | None = player
        self._inputs, self._lock, self._after_run = inputs, lock, after_run
        self._names = [info.name for info in inputs]
        self._results = [info.name for info in outputs]

    def __call__(self, inputs: Inputs) -> Results | None:
        """Return the results; None if the inputs need a conversion or an error message."""
        arrays: Sequence[Any] = listed(self._names, inputs)
        infos = self._inputs
        if len(arrays) != len(infos) or not all(map(TensorInfo.is_taken, infos, arrays)):
            return None
        with self._lock:
            player = self._player
            if player is None:  # another thread closed the session
                return None
            results = player.run(arrays)
        self._after_run(player)
        return dict(zip(self._results, results, strict=True))

    def close(self) -> None:
        """Drop the player. The caller holds the lock."""
        self._player = None
