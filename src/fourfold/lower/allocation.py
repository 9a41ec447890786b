"""Allocates memory for every value, so that no kernel overwrites it while it lives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fourfold.graph import Graph
from fourfold.kernel.context import Target
from fourfold.kernel.location import Location
from fourfold.kernel.stage_table import MAX_TABLE_NUMBER
from fourfold.lower.bind import Allocation, Bound, memory_uses, rebind, written_apart
from fourfold.lower.dependencies import find_dependencies
from fourfold.lower.kernels import Built
from fourfold.lower.levels import LevelSpan, arrangements, sequential_levels
from fourfold.lower.memory import Arena, Span, assign_arenas, assign_offsets
from fourfold.plan import ARENA, CONSTANT_ALIGNMENT

GROWTH_DIVISOR = 8  # the arena may grow by 1/8, so that stages run side by side
MIN_GROWTH_BYTES = 1 << 20  # bytes by which the arena may always grow


class Memory:
    """Memory accesses of kernels, and allocations for them.

    Values that are `fixed` have buffers of their own, the others share the arena.
    """

    def __init__(
        self,
        graph: Graph,
        built: Sequence[Built],
        locations: Mapping[str, Location],
        fixed: Mapping[str, int],
        target: Target,
        buffers: int,
    ) -> None:
        self._graph, self._built, self._fixed = graph, built, fixed
        self._limit, self._buffers = target.device.max_allocation, buffers
        self._uses = [*memory_uses(graph, built, locations)]
        self._alignment = max(CONSTANT_ALIGNMENT, target.device.alignment)
        self._apart = written_apart(built) if target.capabilities.separate_writes else {}

    @property
    def moved(self) -> int:
        """Bytes of values that all kernels read and write."""
        return sum(size for *_, size in self._uses)

    def allocate(self, levels: Sequence[LevelSpan] | None = None) -> Allocation:
        """Allocate values so that no kernel overwrites what others need.

        Without levels, kernels run one at a time.
        """
        arenas = self._arenas(self.spans(levels))
        allocation = {name: (number, 0) for name, number in self._fixed.items()}
        numbers = [ARENA, *range(self._buffers, self._buffers + len(arenas) - 1)]
        for number, arena in zip(numbers, arenas, strict=True):
            allocation.update({root: (number, at) for root, at in arena.offsets.items()})
        return Allocation(allocation, arenas[0].size, tuple(arena.size for arena in arenas[1:]))

    def spans(self, levels: Sequence[LevelSpan] | None = None) -> dict[str, Span]:
        """Return the lifetime of each value in the arena, in levels or else in kernels."""
        levels = sequential_levels(len(self._built)) if levels is None else levels
        spans: dict[str, Span] = {}
        for number, root, size in self._uses:
            if root not in self._fixed:
                level, span = levels[number], spans.get(root, Span(size, *levels[number]))
                spans[root] = Span(size, min(span.first, level.first), max(span.last, level.last))
        return spans

    def _arenas(self, spans: Mapping[str, Span]) -> list[Arena]:
        """Return one arena, or as many as the device or its language needs."""
        if not self._apart:
            offsets, size = assign_offsets(spans, self._alignment)
            if size <= self._limit:
                return [Arena(offsets, size)]
        arenas = assign_arenas(spans, self._alignment, self._limit, self._apart)
        return arenas or [Arena({}, 0)]

    def arranged(
        self, bound: Sequence[Bound], alone: Allocation, shares: bool
    ) -> tuple[list[LevelSpan], tuple[Bound, ...], int]:
        """Return few levels, the kernels bound to memory for them, and the size of the arena.

        If groups do not share stages, or if that would take much more memory, kernels run one at a
        time with the allocation `alone`.
        """
        growth = max(alone.arena // GROWTH_DIVISOR, MIN_GROWTH_BYTES)
        limit = min(alone.arena + growth, MAX_TABLE_NUMBER)
        for levels in self._arrangements() if shares else ():
            allocation = self.allocate(levels)
            if allocation.arena <= limit:
                moved = tuple(rebind(item, allocation) for item in bound)
                return levels, moved, allocation.arena
        return sequential_levels(len(bound)), tuple(bound), alone.arena

    def _arrangements(self) -> Iterator[list[LevelSpan]]:
        return arrangements(find_dependencies(self._graph, self._built, self._fixed))
