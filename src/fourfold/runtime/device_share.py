"""DeviceShare: the device memory that a model uses, and the memory that a limit leaves."""

from __future__ import annotations

from fourfold.errors import DeviceError
from fourfold.plan import CompiledModel


class DeviceShare:
    """Device memory of a model and of its runs in flight, which have their own inputs and outputs.
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
        """True if the limit leaves too little memory for another run in flight."""
        return self._limit is not None and self.bytes + self._slot_bytes > self._limit

    def take_slot(self) -> None:
        """Count another run in flight. Raises a DeviceError if there is too little memory
        for it.
        """
        if self.is_full:
            raise DeviceError(
                f"a run in flight does not fit into memory_limit={self._limit}",
                f"{self.bytes} bytes are in use, and inputs and outputs need {self._slot_bytes}",
                f"pass memory_limit={self.bytes + self._slot_bytes} or more, or use run()",
            )
        self._slots += 1
