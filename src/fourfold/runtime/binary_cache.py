"""Keeps the binaries of programs that had to be built, beside the runs: some drivers take seconds
for it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fourfold import players
from fourfold.errors import FourfoldError
from fourfold.runtime.loading import Request
from fourfold.store.keys import program_parts

if TYPE_CHECKING:
    from fourfold.store.store import Store


class BinaryCache:
    """Fetches binaries once, after the first run, on a thread of its own."""

    def __init__(self, request: Request, store: Store | None, wanted: bool) -> None:
        self._request, self._store = request, store
        self._due = wanted and self._allowed()
        self._thread: threading.Thread | None = None

    def _allowed(self) -> bool:
        device, wanted = self._request.device, self._request.config.binaries
        if self._store is None or wanted == "never":
            return False
        return wanted == "always" or players.backend_of(device).binaries_are_cheap(device)

    def after_run(self, player: players.Player) -> None:
        """PoCL compiles kernels when they first run, so a binary is asked for after that."""
        if self._due:
            self._due = False
            found = getattr(player, "players", (player,))
            self._thread = threading.Thread(target=self._fetch, args=(found,), name="fourfold-keep")
            self._thread.start()

    def _fetch(self, players: Sequence[players.Player]) -> None:
        for player in players:
            if self._store is None:
                return
            try:
                binary = player.binary()
            except FourfoldError:
                return  # a driver without binaries costs speed, never a run
            parts = program_parts(player.plan.program, self._request.device)
            self._store.put_binary(self._request.title, parts, binary)

    def close(self) -> None:
        """Wait for what is under way."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
