"""State of the work-items of some groups while a kernel runs, all of them side by side.

A value is an array of lanes by work-items. It has as many rows as a vector has lanes, or one if all
lanes are equal, and as many columns as there are work-items, or one if all are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fourfold.backends.interpreter.memory import LEVEL

NOTHING = np.zeros((1, 1), np.int32)


class PointerLike(Protocol):
    """The memory behind a pointer."""

    @property
    def dtype(self) -> np.dtype: ...

    def read(self, frame: Frame, index: np.ndarray, width: int, alignment: int = 0) -> np.ndarray:
        """Read `width` elements at `index * width`, or, with an `alignment` that divides the index,
        starting at the element `index`.
        """

    def write(
        self, frame: Frame, index: np.ndarray, value: np.ndarray, width: int, alignment: int = 0
    ) -> None:
        """Write the lanes of a value."""

    def shifted(self, title: str, distance: np.ndarray) -> PointerLike:
        """Return the same memory, starting at another element."""

    def selected(self, keep: Callable[[np.ndarray], np.ndarray]) -> PointerLike:
        """Return the pointer for a subset of the work-items."""


class Mask:
    """The active work-items: at least one, and not all."""

    __slots__ = ("count", "first", "items")

    def __init__(self, items: np.ndarray, count: int) -> None:
        self.items, self.count = items, count
        self.first = int(items.argmax())


NOBODY = Mask(np.zeros((1, 1), np.bool_), 0)


def _mask(items: np.ndarray, count: int) -> Mask:
    return Mask(items, count) if count else NOBODY


@dataclass(frozen=True)
class LaunchGrid:
    """Number and size of groups along three axes."""

    counts: tuple[int, int, int]
    local: tuple[int, int, int]

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.local[0] * self.local[1] * self.local[2]

    @property
    def groups(self) -> int:
        return self.counts[0] * self.counts[1] * self.counts[2]

    @staticmethod
    def of(sizes: Sequence[int], local: Sequence[int]) -> LaunchGrid:
        """Return the grid of a launch, whose sizes count work-items."""
        counts = [size // group for size, group in zip(sizes, local, strict=True)]
        return LaunchGrid(_three(counts), _three(local))

    def name(self, number: int) -> str:
        """Describe a work-item by its position in its group, and the group's position
        in the grid.
        """
        group, item = divmod(number, self.items)
        again = ", repeated" if group == self.groups else ""
        group = min(group, self.groups - 1)
        own, its = (
            ", ".join(str(int(at)) for at in spread(np.array(which), sizes))
            for which, sizes in ((item, self.local), (group, self.counts))
        )
        return f"work-item ({own}) of group ({its}){again}"


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def spread(number: np.ndarray, sizes: tuple[int, int, int]) -> tuple[np.ndarray, ...]:
    """Return the coordinates of a number along three axes, the first one fastest."""
    x, y, _ = sizes
    return number % x, number // x % y, number // (x * y)


@dataclass(frozen=True)
class LaunchContext:
    """Identifies one kernel of a run.

    `stamp` is the stamp of its first work-item (see races.py), `live` the lowest stamp that it has
    not waited for. `owner` names the work-item of a stamp.
    """

    title: str
    stamp: int
    live: int
    owner: Callable[[int], str]


class Frame:
    """The work-items of some groups: one group after the other, and in each the first axis fastest.

    `mask` has the active work-items: None for all, NOBODY for none. `barriers` counts the barriers
    that each has passed, `pieces` the input pieces that it has waited for. `awaits_inputs` is True
    while the kernel still has to wait for earlier ones.
    """

    def __init__(self, grid: LaunchGrid, groups: np.ndarray, launch: LaunchContext) -> None:
        self.grid, self.launch, self.awaits_inputs = grid, launch, False
        self.lanes = groups.size * grid.items
        self.values: list[np.ndarray] = []
        self.pointers: list[PointerLike] = []
        self.mask: Mask | None = None
        self.exited: np.ndarray | None = None
        self.items = np.tile(np.arange(grid.items, dtype=np.int64), groups.size)[None]
        group_numbers = np.repeat(groups.astype(np.int64), grid.items)[None]
        # Number of each work-item in its launch.
        self.numbers = group_numbers * grid.items + self.items
        self.local_ids = [at.astype(np.int32) for at in spread(self.items, grid.local)]
        pairs = zip(spread(group_numbers, grid.counts), grid.local, self.local_ids, strict=True)
        self.global_ids = [(at * size).astype(np.int32) + own for at, size, own in pairs]
        self.barriers = np.zeros((1, self.lanes), np.int64)
        self.pieces = np.zeros((1, self.lanes), np.int64)
        self.subgroup = 1

    def narrow(self, condition: np.ndarray) -> Mask | None:
        """Return the active work-items for which a condition holds."""
        outer = self.mask
        if condition.shape[1] == 1:
            return outer if condition[0, 0] else NOBODY
        items = condition if outer is None else condition & outer.items
        count = int(np.count_nonzero(items))
        if count == (self.lanes if outer is None else outer.count):
            return outer
        return _mask(items, count)

    def leave(self) -> None:
        """Deactivate the active work-items for the remainder of the kernel."""
        items = np.ones((1, self.lanes), np.bool_) if self.mask is None else self.mask.items
        self.exited = items if self.exited is None else self.exited | items
        self.mask = NOBODY

    def remaining(self, mask: Mask | None, exited: np.ndarray | None) -> Mask | None:
        """Return a mask without work-items that left since it was created with these `exited`."""
        if self.exited is exited or self.exited is None:
            return mask
        items = ~self.exited if mask is None else mask.items & ~self.exited
        return _mask(items, int(np.count_nonzero(items)))

    def fill_inactive(self, value: np.ndarray) -> np.ndarray:
        """Return a value in which inactive work-items have the value of an active one."""
        mask = self.mask
        if mask is None or value.shape[1] == 1:
            return value
        return np.where(mask.items, value, value[:, mask.first : mask.first + 1])

    def select_active(self, new: np.ndarray, old: np.ndarray) -> np.ndarray:
        """Return the new value for active work-items, and the old one for the others."""
        return new if self.mask is None else np.where(self.mask.items, new, old)

    @property
    def stamps(self) -> tuple[np.ndarray, int]:
        """Stamps of the work-items, and the lowest stamp whose work is not yet visible."""
        return self.fill_inactive(self.numbers + self.launch.stamp), self.launch.live

    @property
    def local_stamps(self) -> tuple[np.ndarray, np.ndarray]:
        """Stamps of the work-items within their groups, where barriers make work visible."""
        live = self.fill_inactive(self.barriers << LEVEL)
        return live | self.fill_inactive(self.items), live

    def drop_exited(self) -> None:
        """Continue with the active work-items only."""
        mask = self.mask
        if mask is None or mask is NOBODY:
            return
        chosen, lanes = mask.items[0], self.lanes

        def select(value: np.ndarray) -> np.ndarray:
            return value[:, chosen] if value.shape[1] == lanes > 1 else value

        self.values = [select(value) for value in self.values]
        self.items, self.numbers = select(self.items), select(self.numbers)
        self.barriers, self.pieces = select(self.barriers), select(self.pieces)
        self.local_ids = [select(at) for at in self.local_ids]
        self.global_ids = [select(at) for at in self.global_ids]
        self.pointers = [pointer.selected(select) for pointer in self.pointers]
        self.lanes, self.mask, self.exited = mask.count, None, None
