"""Stage: a kernel with its arguments, as one of many that one launch runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fourfold.device import DeviceInfo
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import LocalArray
from fourfold.plan import Argument, BufferUse

GPU_ITEMS = 256  # work-items of a group that shares stages with others
# Bytes that a launch moves for each unit: more than the few warps can ask for that are resident
# where all stages are one launch.
MUCH_MEMORY = 24 << 10
TABLE_ROWS = 1024  # bytes of local memory for the rows of a table, and more than they take


@dataclass(frozen=True, eq=False)
class Stage:
    """A kernel that is launched together with others, and its place among grid barriers."""

    kernel: Kernel
    arguments: tuple[Argument, ...]
    awaits: bool = True  # whether groups wait here for the last grid barrier
    arrives: bool = True  # whether a group then arrives at the next one
    node: str = ""  # where it came from, for those who read times

    @property
    def buffers(self) -> list[BufferUse]:
        return [item for item in self.arguments if isinstance(item, BufferUse)]

    @property
    def counts(self) -> list[int]:
        """Virtual groups along each axis."""
        pairs = zip(self.kernel.grid, self.kernel.local, strict=True)
        counts = [size // local for size, local in pairs]
        return counts + [1] * (3 - len(counts))


def group_memory(device: DeviceInfo, items: int, asked: bool = False) -> int:
    """The bytes of local memory that a group of so many work-items may have, or may have if its
    launch is `asked` for them, which leaves less for caches. Where all kernels of a
    plan may become one launch, several small groups run side by side in one of its own, which
    holds two rows of its table, too.
    """
    most = device.most_local_memory if asked else device.local_memory
    if not device.resident:
        return most
    return (most - TABLE_ROWS) // max(1, GPU_ITEMS // items)


def refuses_waits(stages: Sequence[Stage], device: DeviceInfo) -> str | None:
    """Why groups that run these stages cannot wait for each other, or None."""
    if not (device.forward_progress if device.is_cpu else device.resident):
        return "groups of this device cannot wait for each other in a known way"
    statements = (one for stage in stages for one in stage.kernel.body)
    if device.is_cpu and any(isinstance(one, LocalArray) for one in statements):
        return "a kernel needs local memory"
    return None
