"""InstanceSlots: the parts of a model instance for runs in flight and for arrays in mapped
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from fourfold import backends
from fourfold.plan import CompiledModel
from fourfold.runtime.device_share import DeviceShare
from fourfold.runtime.request import Request
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from concurrent import futures

    from fourfold.backends import thread_slot
    from fourfold.runtime import in_flight, views
    from fourfold.runtime.executor import Executor
else:
    in_flight, views = (lazy_import(f"fourfold.runtime.{name}") for name in ("in_flight", "views"))
    thread_slot = lazy_import("fourfold.backends.thread_slot")
    futures = lazy_import("concurrent.futures")


class InstanceSlots:
    """Runs with their own memory in addition to the player's, allocated on first use."""

    request: Request
    model: CompiledModel
    executor: Executor
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    _playing: Lock
    _thread: futures.ThreadPoolExecutor | None = None  # for players that run one at a time

    def _after_run(self) -> None:
        raise NotImplementedError

    @cached_property
    def device_share(self) -> DeviceShare:
        """The device memory that the instance uses."""
        return DeviceShare(self.model, self.request.compile_options.memory_limit)

    @cached_property
    def flights(self) -> in_flight.RunsInFlight:
        """The runs in flight."""
        names = [info.name for info in self.outputs]
        full = partial(getattr, self.device_share, "is_full")
        return in_flight.RunsInFlight(self._open_slot, names, self._after_run, full)

    @cached_property
    def views(self) -> views.Views:
        """Arrays that the caller fills and reads, in memory that kernels use."""
        names = [info.name for info in self.inputs], [info.name for info in self.outputs]
        return views.Views(partial(self._open_slot, staged=False), names, self._after_run)

    def _open_slot(self, staged: bool = True) -> backends.Slot:
        player = self.executor.player
        if player is not None:
            self.device_share.take_slot()
            slot = player.open_slot(staged)
            if slot is not None:
                return slot
        if self._thread is None:
            self._thread = futures.ThreadPoolExecutor(1, "fourfold-run")
        inputs, outputs = self.model.inputs, self.model.outputs
        return thread_slot.ThreadSlot(self._play, self._thread, inputs, outputs)

    def _play(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with self._playing:
            return self.executor.run(arrays)

    def drain(self) -> None:
        """Wait for all runs in flight."""
        for name in ("flights", "views"):
            if name in vars(self):
                getattr(self, name).drain()

    def _close_slots(self) -> None:
        """Close all slots, after their runs have ended."""
        for name in ("flights", "views"):
            if name in vars(self):
                vars(self).pop(name).close()

    def _close_thread(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
