"""A slot: memory for what goes in and out of one run in flight, and launches that know it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.plan.host_protocol import DONE, READY, pieces
from fourfold.players.chunked_copy import copied
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.port_memory import PortMemory
from fourfold.players.cuda.replay import Copy, LaunchBinder, Replay

MOST_POLLS = 20000  # of whether a run is done; then the driver waits
DOING = "running the model"
Working = Callable[[str], AbstractContextManager[object]]


class SlotStreams(NamedTuple):
    """Where runs in flight put in their launches, and their copies: into streams beside that, so
    that inputs of the next run and outputs of the last one are copied while kernels work. A stream
    that is the caller's has all of it, in order.
    """

    uploads: cu.Stream
    launches: cu.Stream
    downloads: cu.Stream

    @staticmethod
    def of(launches: cu.Stream, info: DeviceInfo) -> SlotStreams:
        if info.shared_queue:
            return SlotStreams(launches, launches, launches)
        return SlotStreams(cu.Stream(), launches, cu.Stream())

    @property
    def are_beside(self) -> bool:
        return self.uploads is not self.launches

    def finish(self) -> None:
        for stream in self:
            stream.finish()

    def release(self) -> None:
        if self.are_beside:
            self.uploads.release()
            self.downloads.release()


class Slot:
    """One run in flight; see the protocol. `working` makes errors of the driver our own."""

    def __init__(
        self, ports: PortMemory, binder: LaunchBinder, streams: SlotStreams, working: Working
    ) -> None:
        self._ports, self._streams, self._working = ports, streams, working
        self.inputs, self.outputs = ports.inputs, ports.outputs
        route = ports.route()
        self._uploads: tuple[Copy, ...] = ()
        self._downloads: tuple[Copy, ...] = ()
        if streams.are_beside:
            route, self._uploads, self._downloads = ports.own_copies()
        self._flags = self._make_flags()
        # Whether the last kernel itself tells that all is there.
        self._tells = self._flags is not None and not (self._downloads or route.after)
        self._replay = Replay(route, binder)
        self._sent, self._computed, self._done = cu.Event(), cu.Event(), cu.Event()
        self._is_flying = False
        self._replay.capture()
        self._is_open = True

    def _make_flags(self) -> memoryview | None:
        """Flags that tell a kernel that all of its inputs are there."""
        memory = self._ports.flags()
        if memory is None:
            return None
        hosted = [port for port in self._ports.plan.inputs if self._ports.is_host(port)]
        flags = memory.data.cast("I")
        flags[READY] = sum(pieces(port.type.bytes) for port in hosted)
        return flags

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        """Its events are there already: whether anybody will spin makes no difference."""
        self.end()  # somebody may have stopped waiting for the run before
        for host, array in zip(self.inputs, arrays, strict=True):
            if array is not None:
                copied(array, host)
        with self._working(DOING):
            try:
                self._put_in()
            except BaseException:
                with suppress(cu.Error):  # the driver may still use memory of this slot
                    self._streams.finish()
                raise
        self._is_flying = True

    def _put_in(self) -> None:
        uploads, launches, downloads = self._streams
        if self._uploads:
            for one in self._uploads:
                uploads.copy(*one)
            self._sent.record(uploads)
            launches.wait_for(self._sent)
        if self._flags is not None:
            self._flags[DONE] = 0
        self._replay.put(launches)
        if not self._downloads:
            self._done.record(launches)
            return
        self._computed.record(launches)
        downloads.wait_for(self._computed)
        for one in self._downloads:
            downloads.copy(*one)
        self._done.record(downloads)

    @property
    def done(self) -> bool:
        if not self._is_flying or self._tells_done():
            return True
        with self._working(DOING):
            return self._done.done

    def _tells_done(self) -> bool:
        return self._tells and self._flags is not None and bool(self._flags[DONE])

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        if self._is_flying and not (spin and self._spin()):
            with self._working(DOING):
                self._done.wait()
        self._is_flying = False
        return self.outputs

    def _spin(self) -> bool:
        """Look again and again whether the run is done."""
        if self._tells:
            return any(self._tells_done() for _ in range(MOST_POLLS))
        with self._working(DOING):
            return any(self._done.done for _ in range(MOST_POLLS))

    def close(self) -> None:
        self._is_open = False
        with suppress(FourfoldError):
            self.end()
        with suppress(FourfoldError), self._working("giving memory back"):
            self._done.wait()  # a kernel that said that it is done may not have ended
            for one in (self._replay, self._ports, self._sent, self._computed, self._done):
                one.release()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self.close()
