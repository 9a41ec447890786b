"""Binaries of programs: used instead of the compiler where one is kept, and kept after a run."""

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
    """A player of the plan: by its binary where there is a good one, else by the compiler."""
    request.timings.begins("build")
    device, began = request.device, time.perf_counter()
    program = backends.backend_of(device).live_program(device, plan.program)
    how = "is loaded already"
    if program is None and binary is not None:
        program, how = _load_program(request, plan, binary, store), "comes from its binary"
    how = "is built from text" if program is None else how
    log.debug("program of %s, %d bytes, %s", request.title, len(plan.program.text), how)
    player = backends.make_player(device, plan, program, store)
    upload = player.timings["upload"]
    built = time.perf_counter() - upload
    request.timings.add("build", built - began, built)
    request.timings.add("upload", upload)
    return player


def _load_program(
    request: Request, plan: Plan, binary: bytes, store: Store | None
) -> backends.BuiltProgram | None:
    """The program of a binary; None where the driver refuses it, or died of it before."""
    device = request.device
    load = backends.backend_of(device).load_program
    if store is None:
        return load(device, plan.program, binary)
    with store.loading(binary) as allowed:
        program = load(device, plan.program, binary) if allowed else None
    if allowed and program is None:
        why = f"{device.name} refused a kept binary"
        log.warn_once(f"{why}; its kernels are built from text")
        store.condemn(binary, "the driver refused it")
    return program


class BinaryCache:
    """Fetches binaries once, after the first run, on a thread of its own: some drivers take
    seconds for it.
    """

    def __init__(self, request: Request, store: Store | None, built: bool) -> None:
        self._request, self._store = request, store
        self._due = built and self._allowed()
        self._thread: threading.Thread | None = None

    def _allowed(self) -> bool:
        device, wanted = self._request.device, self._request.config.binaries
        if self._store is None or wanted == "never":
            return False
        return wanted == "always" or backends.backend_of(device).binaries_are_cheap(device)

    def after_run(self, *on_device: backends.Player) -> None:
        """Fetch the binaries of these players, once. PoCL compiles a kernel when it first runs, so
        that a binary fetched earlier would be incomplete.
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
            except FourfoldError as error:  # that costs speed, never a run
                log.debug("no binary of %s is kept: %s", self._request.title, error.why)
                return
            parts = program_parts(player.plan.program, self._request.device)
            self._store.put_binary(self._request.title, parts, binary)
            log.debug("a binary of %s is kept, %d bytes", self._request.title, len(binary))

    def close(self) -> None:
        """Wait for what is under way."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
