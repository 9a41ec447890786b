"""Reusable run with device memory, with little overhead per run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from weakref import ref

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.failures import ConvertErrors
from fourfold.backends.cuda.memory import CudaMemory
from fourfold.backends.cuda.replay import LastRun, Replay
from fourfold.backends.host_handshake import HostHandshake
from fourfold.device import DeviceInfo


class Order:
    """Chooses the stream of a run: the player's own, or the default stream after work that other
    libraries submitted there. Memory of our own is not known to others until its address is
    requested.
    """

    def __init__(
        self, last: LastRun, device: DeviceInfo, memories: Sequence[CudaMemory | None]
    ) -> None:
        """Keeps only weak references to the memory. In a caller's stream everything is ordered
        anyway.
        """
        self._last, self._default = last, cu.Stream.of(cu.DEFAULT_STREAM)
        bound = [] if device.shared_queue else [one for one in memories if one is not None]
        foreign = any(one.used_by_others for one in bound)
        self._memories = None if foreign else [ref(one) for one in bound]

    def stream(self) -> cu.Stream:
        own = self._last.own
        if not self._is_used_by_others():
            return own
        if self._last.is_alone:
            return self._default
        own.follow_default()  # also wait for a run in flight
        return own

    def _is_used_by_others(self) -> bool:
        """Return True if other libraries may have submitted work for some of the memory."""
        if self._memories is None:
            return True
        for one in self._memories:
            memory = one()
            if memory is None or memory.used_by_others:
                return True
        return False


class BoundRun:
    """One launch that reads nothing from the host and signals its end with a flag."""

    def __init__(
        self,
        replay: Replay,
        order: Order,
        last: LastRun,
        handshake: HostHandshake,
        run_errors: ConvertErrors,
    ) -> None:
        self._replay, self._order, self._last = replay, order, last
        self._handshake, self._run_errors = handshake, run_errors

    def play(self) -> bool:
        """Run and wait; False if it was released and must be created again."""
        if self._replay.is_released:
            return False
        with self._run_errors:
            try:
                with self._last.context:
                    self._handshake.launch(self._launch)
                self._handshake.wait()
            except BaseException:
                with suppress(cu.Error):  # kernels may still use memory that is freed soon
                    self._last.finish()
                raise
        return True

    def _launch(self) -> None:
        self._last.put(self._replay, self._order.stream())
