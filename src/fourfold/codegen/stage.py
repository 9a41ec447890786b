"""Stage: a kernel with its arguments, one of many in a single launch; and the grids of launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fourfold.codegen.kernel import Kernel
from fourfold.codegen.statement import LocalArray
from fourfold.device import DeviceInfo
from fourfold.plan import Argument, BufferUse

GPU_ITEMS = 256  # work-items per group, if groups share stages
# Bytes that a launch moves per compute unit, above which one launch is slower: its few resident
# warps cannot request that much.
MAX_BYTES_PER_UNIT = 24 << 10
TABLE_ROWS = 1024  # bytes of local memory reserved for rows of the table


@dataclass(frozen=True, eq=False)
class Stage:
    """A kernel that is launched together with others, and its relation to grid barriers."""

    kernel: Kernel
    arguments: tuple[Argument, ...]
    awaits: bool = True  # groups wait here for the last grid barrier
    arrives: bool = True  # groups then arrive at the next grid barrier
    node: str = ""  # name of its node, for profiles

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
    """Return the local memory in bytes that a group of `items` work-items may use.

    With `asked`, the launch allocates it explicitly, which allows more but leaves less for caches.
    If all kernels of a plan may become one launch, several small groups run side by side in one
    real group, which also holds two rows of the table.
    """
    limit = device.max_local_memory if asked else device.local_memory
    if not device.resident:
        return limit
    return (limit - TABLE_ROWS) // max(1, GPU_ITEMS // items)


def find_wait_conflict(stages: Sequence[Stage], device: DeviceInfo) -> str | None:
    """Return why groups that run these stages cannot wait for each other, or None."""
    if not (device.forward_progress if device.is_cpu else device.resident):
        return "this device does not guarantee that groups can wait for each other"
    statements = (one for stage in stages for one in stage.kernel.body)
    if device.is_cpu and any(isinstance(one, LocalArray) for one in statements):
        return "a kernel needs local memory"
    return None


def grid_groups(grid: tuple[int, ...], local: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of groups along each axis."""
    return tuple(count // size for count, size in zip(grid, local, strict=True))


def folded_groups(
    grid: tuple[int, ...], local: tuple[int, ...], most: int | None
) -> tuple[int, int] | None:
    """Return the groups as rows of `most`, the last padded; None if no axis exceeds `most`."""
    groups = grid_groups(grid, local)
    if most is None or max(groups) <= most:
        return None
    return most, -(-prod(groups) // most)


def folded_launch(
    grid: tuple[int, ...], local: tuple[int, ...], most: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the grid and the group size of a launch, folded if necessary."""
    folded = folded_groups(grid, local, most)
    if folded is None:
        return grid, local
    size = (*local, 1, 1)[:3]
    return (folded[0] * size[0], folded[1] * size[1], size[2]), size
