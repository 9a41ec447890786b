"""Memory for every value, safe from kernels that run while it lives: alone, or side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fourfold.graph import Graph
from fourfold.kernel.context import Target
from fourfold.kernel.location import Location
from fourfold.kernel.stage_table import LARGEST
from fourfold.lower.bind import Allocation, Bound, memory_uses, rebind, written_apart
from fourfold.lower.dependencies import find_dependencies
from fourfold.lower.kernels import Built
from fourfold.lower.levels import LevelSpan, arrangements, one_by_one
from fourfold.lower.memory import Arena, Span, assign_arenas, assign_offsets
from fourfold.plan import ARENA, CONSTANT_ALIGNMENT

MORE = 8  # a part of the arena by which it may grow, so that stages run side by side
LITTLE = 1 << 20  # bytes by which it may grow in any case


class Memory:
    """What kernels touch, and where that may lie: values that are `fixed` fill a buffer of their
    own, the others share the arena.
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
        """There are so many buffers, beside further arenas."""
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
        """Allocation in which no kernel harms what others need; without levels, each runs alone."""
        arenas = self._arenas(self.spans(levels))
        allocation = {name: (number, 0) for name, number in self._fixed.items()}
        numbers = [ARENA, *range(self._buffers, self._buffers + len(arenas) - 1)]
        for number, arena in zip(numbers, arenas, strict=True):
            allocation.update({root: (number, at) for root, at in arena.offsets.items()})
        return Allocation(allocation, arenas[0].size, tuple(arena.size for arena in arenas[1:]))

    def spans(self, levels: Sequence[LevelSpan] | None = None) -> dict[str, Span]:
        """How long each value that shares the arena lives, by levels or else by kernels."""
        levels = one_by_one(len(self._built)) if levels is None else levels
        spans: dict[str, Span] = {}
        for number, root, size in self._uses:
            if root not in self._fixed:
                level, span = levels[number], spans.get(root, Span(size, *levels[number]))
                spans[root] = Span(size, min(span.first, level.first), max(span.last, level.last))
        return spans

    def _arenas(self, spans: Mapping[str, Span]) -> list[Arena]:
        """One arena, or as many as the device or its language needs."""
        if not self._apart:
            offsets, size = assign_offsets(spans, self._alignment)
            if size <= self._limit:
                return [Arena(offsets, size)]
        arenas = assign_arenas(spans, self._alignment, self._limit, self._apart)
        return arenas or [Arena({}, 0)]

    def arranged(
        self, bound: Sequence[Bound], alone: Allocation, shares: bool
    ) -> tuple[list[LevelSpan], tuple[Bound, ...], int]:
        """Few levels, the kernels with the allocation for these, and the size of the arena.

        Where groups do not share their stages, or that would take much more memory, each of them
        runs `alone`.
        """
        most = min(alone.arena + max(alone.arena // MORE, LITTLE), LARGEST)
        for levels in self._arrangements() if shares else ():
            allocation = self.allocate(levels)
            if allocation.arena <= most:
                moved = tuple(rebind(item, allocation) for item in bound)
                return levels, moved, allocation.arena
        return one_by_one(len(bound)), tuple(bound), alone.arena

    def _arrangements(self) -> Iterator[list[LevelSpan]]:
        return arrangements(find_dependencies(self._graph, self._built, self._fixed))
