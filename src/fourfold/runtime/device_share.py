"""DeviceShare: what a model that is ready has of a device's memory, and what a limit leaves it."""

from __future__ import annotations

from fourfold.errors import DeviceError
from fourfold.options import MemoryLimit
from fourfold.plan import Plan


class DeviceShare:
    """The memory of a plan, and of its runs in flight: each has inputs and outputs of its own."""

    def __init__(self, plan: Plan, limit: MemoryLimit | None) -> None:
        self._plan, self._limit, self._slots = plan, limit, 0
        ports = {port.buffer for port in (*plan.inputs, *plan.outputs) if plan.buffers}
        self._slot_bytes = sum(plan.buffers[number].allocated for number in ports)

    @property
    def bytes(self) -> int:
        return self._plan.device_bytes + self._slots * self._slot_bytes

    @property
    def is_full(self) -> bool:
        """Whether the limit leaves no room for one more run in flight."""
        return self._limit is not None and self.bytes + self._slot_bytes > self._limit.bytes

    def take_slot(self) -> None:
        """Count one more run in flight; a DeviceError where there is no room for it."""
        if self.is_full:
            assert self._limit is not None
            raise DeviceError(
                f"there is no room for a run in flight within memory_limit={self._limit.bytes}",
                f"{self.bytes} bytes are taken, and its inputs and outputs are {self._slot_bytes}",
                f"pass memory_limit={self.bytes + self._slot_bytes} or more, or use run()",
            )
        self._slots += 1
