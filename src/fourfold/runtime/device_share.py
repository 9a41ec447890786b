"""DeviceShare: what a model that is ready has of a device's memory, and what a limit leaves it."""

from __future__ import annotations

from fourfold.errors import DeviceError
from fourfold.plan import CompiledModel


class DeviceShare:
    """Memory of a model, and of its runs in flight, which have inputs and outputs of their own.
    Only a model that runs whole on the device has such runs.
    """

    def __init__(self, model: CompiledModel, limit: int | None) -> None:
        self._model, self._limit, self._slots = model, limit, 0
        self._slot_bytes = 0
        if model.is_whole:
            plan = model.plan
            buffers = {port.buffer for port in (*plan.inputs, *plan.outputs) if plan.buffers}
            self._slot_bytes = sum(plan.buffers[number].allocated for number in buffers)

    @property
    def bytes(self) -> int:
        return self._model.device_bytes + self._slots * self._slot_bytes

    @property
    def is_full(self) -> bool:
        """Whether the limit leaves no room for one more run in flight."""
        return self._limit is not None and self.bytes + self._slot_bytes > self._limit

    def take_slot(self) -> None:
        """Count one more run in flight; a DeviceError where there is no room for it."""
        if self.is_full:
            raise DeviceError(
                f"there is no room for a run in flight within memory_limit={self._limit}",
                f"{self.bytes} bytes are taken, and its inputs and outputs are {self._slot_bytes}",
                f"pass memory_limit={self.bytes + self._slot_bytes} or more, or use run()",
            )
        self._slots += 1
