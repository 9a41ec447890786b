"""Slot: memory and launches of one run in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

import numpy as np

from fourfold.backends.chunked_copy import copied
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.port_memory import PortMemory
from fourfold.backends.cuda.replay import Copy, LaunchBinder, Replay
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.plan.host_protocol import DONE, READY, pieces

MAX_POLLS = 20000  # then block in the driver
DOING = "running the model"
ActiveContext = Callable[[str], AbstractContextManager[object]]


class SlotStreams(NamedTuple):
    """Streams for launches and copies of runs in flight.

    Separate streams let the inputs of the next run and the outputs of the last one be copied while
    kernels run. If the stream is the caller's, it is used for everything, in order.
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
    def are_separate(self) -> bool:
        return self.uploads is not self.launches

    def finish(self) -> None:
        for stream in self:
            stream.finish()

    def release(self) -> None:
        if self.are_separate:
            self.uploads.release()
            self.downloads.release()


class Slot:
    """One run in flight; see the protocol. `working` converts errors of the driver."""

    def __init__(
        self, ports: PortMemory, binder: LaunchBinder, streams: SlotStreams, working: ActiveContext
    ) -> None:
        self._ports, self._streams, self._convert_errors = ports, streams, working
        self.inputs, self.outputs = ports.inputs, ports.outputs
        route = ports.route()
        self._uploads: tuple[Copy, ...] = ()
        self._downloads: tuple[Copy, ...] = ()
        if streams.are_separate:
            route, self._uploads, self._downloads = ports.own_copies()
        self._flags = self._make_flags()
        # Whether the last kernel itself signals that everything is done.
        self._signals = self._flags is not None and not (self._downloads or route.after)
        self._replay = Replay(route, binder)
        self._sent, self._computed, self._done = cu.Event(), cu.Event(), cu.Event()
        self._is_flying = False
        self._replay.capture()
        self._is_open = True

    def _make_flags(self) -> memoryview | None:
        """Return flags that tell a kernel that all of its inputs are ready."""
        memory = self._ports.flags()
        if memory is None:
            return None
        hosted = [port for port in self._ports.plan.inputs if self._ports.is_host(port)]
        flags = memory.data.cast("I")
        flags[READY] = sum(pieces(port.type.bytes) for port in hosted)
        return flags

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        """Submit a run; `spin` makes no difference, since its events already exist."""
        self.end()  # the caller may have stopped waiting for the previous run
        for host, array in zip(self.inputs, arrays, strict=True):
            if array is not None:
                copied(array, host)
        with self._convert_errors(DOING):
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
        if not self._is_flying or self._is_signalled():
            return True
        with self._convert_errors(DOING):
            return self._done.done

    def _is_signalled(self) -> bool:
        return self._signals and self._flags is not None and bool(self._flags[DONE])

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        if self._is_flying and not (spin and self._spin()):
            with self._convert_errors(DOING):
                self._done.wait()
        self._is_flying = False
        return self.outputs

    def _spin(self) -> bool:
        """Poll until the run is done."""
        if self._signals:
            return any(self._is_signalled() for _ in range(MAX_POLLS))
        with self._convert_errors(DOING):
            return any(self._done.done for _ in range(MAX_POLLS))

    def close(self) -> None:
        self._is_open = False
        with suppress(FourfoldError):
            self.end()
        with suppress(FourfoldError), self._convert_errors("freeing memory"):
            self._done.wait()  # a kernel that set its completion flag may not have ended
            for one in (self._replay, self._ports, self._sent, self._computed, self._done):
                one.release()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self.close()
