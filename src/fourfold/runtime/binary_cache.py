"""Binaries of programs: loaded from the store instead of compiling, and stored after the
first run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fourfold import backends
from fourfold.errors import FourfoldError
from fourfold.plan import Plan
from fourfold.runtime.request import Request
from fourfold.store.keys import program_parts
from fourfold.support.log import Log

if TYPE_CHECKING:
    from fourfold.store.store import Store

log = Log("runtime")


def start_player(
    request: Request, plan: Plan, binary: bytes | None, store: Store | None
) -> backends.Player:
    """Return a player for a plan, from its binary if that loads, else compiled from source."""
    request.timings.begins("build")
    device, began = request.device, time.perf_counter()
    program = backends.backend_of(device).live_program(device, plan.program)
    source = "is loaded already"
    if program is None and binary is not None:
        program, source = _load_program(request, plan, binary, store), "comes from its binary"
    source = "is compiled from source" if program is None else source
    log.debug("program of %s, %d bytes, %s", request.title, len(plan.program.text), source)
    player = backends.make_player(device, plan, program, store)
    upload = player.timings["upload"]
    built = time.perf_counter() - upload
    request.timings.add("build", built - began, built)
    request.timings.add("upload", upload)
    return player


def _load_program(
    request: Request, plan: Plan, binary: bytes, store: Store | None
) -> backends.BuiltProgram | None:
    """Return the program of a binary; None if the driver refuses it, or crashed with it before."""
    device = request.device
    load = backends.backend_of(device).load_program
    if store is None:
        return load(device, plan.program, binary)
    with store.loading(binary) as allowed:
        program = load(device, plan.program, binary) if allowed else None
    if allowed and program is None:
        why = f"{device.name} refused a cached binary"
        log.warn_once(f"{why}; its kernels are compiled from source")
        store.quarantine_binary(binary, "the driver refused it")
    return program


class BinaryCache:
    """Fetches binaries once, after the first run, on a separate thread, because some drivers take
    seconds for it.
    """

    def __init__(self, request: Request, store: Store | None, built: bool) -> None:
        self._request, self._store = request, store
        self._due = built and self._allowed()
        self._thread: threading.Thread | None = None

    def _allowed(self) -> bool:
        device, setting = self._request.device, self._request.config.binaries
        if self._store is None:
            return False
        return setting == "always" or backends.backend_of(device).binaries_are_cheap(device)

    def after_run(self, *on_device: backends.Player) -> None:
        """Fetch the binaries of these players, once. PoCL compiles a kernel on its first run, so an
        earlier binary would be incomplete.
        """
        if self._due:
            self._due = False
            self._thread = threading.Thread(
                target=self._fetch, args=(on_device,), name="fourfold-binaries"
            )
            self._thread.start()

    def _fetch(self, on_device: Sequence[backends.Player]) -> None:
        for player in on_device:
            if self._store is None:
                return
            try:
                binary = player.binary()
            except FourfoldError as error:  # the next start is slower, but the run is valid
                log.debug("no binary of %s is cached: %s", self._request.title, error.why)
                return
            parts = program_parts(player.plan.program, self._request.device)
            self._store.put_binary(self._request.title, parts, binary)
            log.debug("cached a binary of %s, %d bytes", self._request.title, len(binary))

    def close(self) -> None:
        """Wait until binaries being fetched are stored."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
