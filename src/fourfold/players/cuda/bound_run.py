"""A run with memory of the device that is played again and again, with little to do for each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from weakref import ref

from fourfold.device import DeviceInfo
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.failures import Explaining
from fourfold.players.cuda.memory import CudaMemory
from fourfold.players.cuda.replay import LastRun, Replay
from fourfold.players.host_handshake import HostHandshake


class Order:
    """Says into which stream a run is put: the player's own, or the default one, behind what others
    have put in there for their memory. Nobody else knows of memory of our own until its address is
    asked for.
    """

    def __init__(
        self, last: LastRun, device: DeviceInfo, memories: Sequence[CudaMemory | None]
    ) -> None:
        """It holds none of these: they go when their owners let go of them. In a caller's stream
        all is in order anyway.
        """
        self._last, self._default = last, cu.Stream.of(cu.DEFAULT_STREAM)
        known = [] if device.shared_queue else [one for one in memories if one is not None]
        foreign = any(one.is_foreign for one in known)
        self._known = None if foreign else [ref(one) for one in known]

    def stream(self) -> cu.Stream:
        own = self._last.own
        if not self._is_others():
            return own
        if self._last.is_alone:
            return self._default
        own.follow_default()  # a run in flight has to come before, too
        return own

    def _is_others(self) -> bool:
        """Whether others may have put in work for some of the memory."""
        if self._known is None:
            return True
        for one in self._known:
            memory = one()
            if memory is None or memory.is_foreign:
                return True
        return False


class BoundRun:
    """One launch that reads nothing of the host's, and says by a flag that it is done."""

    def __init__(
        self,
        replay: Replay,
        order: Order,
        last: LastRun,
        handshake: HostHandshake,
        explaining: Explaining,
    ) -> None:
        self._replay, self._order, self._last = replay, order, last
        self._handshake, self._explaining = handshake, explaining

    def play(self) -> bool:
        """Play it and wait for it; False where it was given back, and has to be found anew."""
        if self._replay.is_released:
            return False
        with self._explaining:
            try:
                with self._last.context:
                    self._handshake.launch(self._launch)
                self._handshake.wait()
            except BaseException:
                with suppress(cu.Error):  # kernels may still use memory that is gone soon
                    self._last.finish()
                raise
        return True

    def _launch(self) -> None:
        self._last.put(self._replay, self._order.stream())
