"""Allocates memory for every value, so that no kernel overwrites it while it lives.

Values between kernels share one arena or several. Dependencies between kernels decide which of them
may run at the same time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

from fourfold.codegen.context import Scratch, Target
from fourfold.codegen.kernel import BufferArgument, Kernel
from fourfold.codegen.location import Location
from fourfold.codegen.stage_table import MAX_TABLE_NUMBER
from fourfold.compiler.lower.bind import Allocation, Bound, memory_uses, rebind, written_apart
from fourfold.compiler.lower.kernels import Built
from fourfold.compiler.lower.levels import LevelSpan, arrangements, sequential_levels
from fourfold.graph import Graph
from fourfold.plan import ARENA, CONSTANT_ALIGNMENT

NO_KERNELS: frozenset[int] = frozenset()


def find_dependencies(
    graph: Graph, built: Sequence[Built], fixed: Mapping[str, int]
) -> list[frozenset[int]]:
    """Return, for each kernel, the numbers of those it depends on.

    `fixed` are values with a buffer of their own. A value is written once, so a kernel depends on
    those that produce what its node reads. Views have no kernel: their readers depend on the
    producers of the viewed value.
    """
    numbers: dict[str, list[int]] = {}
    for number, item in enumerate(built):
        numbers.setdefault(item.node.outputs[0], []).append(number)
    makers: dict[str, frozenset[int]] = {}
    dependencies = [*_reused_buffer_dependencies(built, fixed)]
    for node in graph.nodes:
        before = NO_KERNELS.union(*(makers.get(name, NO_KERNELS) for name in node.reads))
        own = numbers.get(node.outputs[0], [])
        siblings = _SiblingUses()
        for number in own:
            dependencies[number] |= before | siblings.find_conflicts(number, built[number].kernel)
        makers.update(dict.fromkeys(node.outputs, frozenset(own) or before))
    return dependencies


class _SiblingUses:
    """The memory that the kernels of one node use, by the root of each value."""

    def __init__(self) -> None:
        self._read: dict[str, set[int]] = {}
        self._written: dict[str, dict[object, set[int]]] = {}

    def find_conflicts(self, number: int, kernel: Kernel) -> set[int]:
        """Add a kernel; return earlier ones that write what it reads or writes, or read what it
        writes. Two that write to one value at different locations produce different parts of it.
        """
        conflicts: set[int] = set()
        uses = [(root, one) for one in kernel.buffers if (root := _root(one)) is not None]
        for root, argument in uses:
            written = self._written.get(root, {})
            if argument.pointer.writable:
                conflicts |= self._read.get(root, set()) | written.get(argument.memory, set())
            else:
                conflicts.update(*written.values())
        for root, argument in uses:
            if argument.pointer.writable:
                locations = self._written.setdefault(root, {})
                locations.setdefault(argument.memory, set()).add(number)
            else:
                self._read.setdefault(root, set()).add(number)
        return conflicts


def _reused_buffer_dependencies(
    built: Sequence[Built], fixed: Mapping[str, int]
) -> Iterator[frozenset[int]]:
    """Yield the kernels each kernel waits for because its buffer held another value.

    That value is a state, of which the kernel produces the next one.
    """
    users: dict[int, dict[str, set[int]]] = {}
    for number, item in enumerate(built):
        earlier_users: set[int] = set()
        for root in {_root(argument) for argument in item.kernel.buffers} & {*fixed}:
            values = users.setdefault(fixed[str(root)], {})
            earlier_users.update(*(numbers for other, numbers in values.items() if other != root))
            values.setdefault(str(root), set()).add(number)
        yield frozenset(earlier_users - {number})


def _root(argument: BufferArgument) -> str | None:
    memory = argument.memory
    return memory.root if isinstance(memory, Location | Scratch) else None


MAX_TRIES = 40
MAX_TRIED_PAIRS = 1 << 22  # pairs of values compared by all tries together
MAX_PAIRS = 1 << 20  # pairs of values that live at the same time; more are placed without a search
MAX_OPEN_ARENAS = 8  # arenas that take further values, if there are more pairs than that


@dataclass(frozen=True)
class Span:
    """The size of a value, and the first and last launch that use it."""

    bytes: int
    first: int
    last: int

    def overlaps(self, other: Span) -> bool:
        """Return whether both live at the same time."""
        return self.first <= other.last and other.first <= self.last

    def rounded(self, alignment: int) -> Span:
        return Span(-(-self.bytes // alignment) * alignment, self.first, self.last)


@dataclass(frozen=True)
class Arena:
    """The offset of each value, and the size of the arena."""

    offsets: Mapping[str, int]
    size: int


Neighbours = Mapping[str, Sequence[str]]  # the values that live at the same time as each value


def assign_offsets(spans: Mapping[str, Span], alignment: int) -> tuple[dict[str, int], int]:
    """Return the offset of each value in the arena, and the size of the arena.

    Values that live at the same time never overlap. The largest value is placed first. If the arena
    is then larger than the peak of live values, the value at its end is placed earlier, repeatedly.
    """
    rounded = {name: span.rounded(alignment) for name, span in spans.items()}
    neighbours = find_neighbours(rounded)
    if neighbours is None:
        (arena,) = _place_without_search(rounded, sys.maxsize, {})
        return dict(arena.offsets), arena.size
    order = sorted(rounded, key=lambda name: (-rounded[name].bytes, rounded[name].first, name))
    best, peak = _place(rounded, order, neighbours), peak_live_bytes(rounded)
    arena_now = best
    pairs = len(order) + sum(map(len, neighbours.values()))
    for _ in range(min(MAX_TRIES, MAX_TRIED_PAIRS // max(pairs, 1))):
        if best.size == peak:
            break
        last = max(order, key=lambda name: arena_now.offsets[name] + rounded[name].bytes)
        order = [last, *(name for name in order if name != last)]
        arena_now = _place(rounded, order, neighbours)
        best = min(best, arena_now, key=lambda arena: arena.size)
    return dict(best.offsets), best.size


def assign_arenas(
    spans: Mapping[str, Span],
    alignment: int,
    limit: int,
    apart: Mapping[str, Set[str]] = MappingProxyType({}),
) -> list[Arena]:
    """Assign values to several arenas, each within the limit unless one value alone exceeds it.

    Values that must be `apart` are in different arenas. The largest value is placed first; each
    goes to the arena that grows least.
    """
    rounded = {name: span.rounded(alignment) for name, span in spans.items()}
    neighbours = find_neighbours(rounded)
    if neighbours is None:
        return _place_without_search(rounded, limit, apart)
    offsets: list[dict[str, int]] = []  # of each arena
    sizes: list[int] = []
    for name in sorted(spans, key=lambda name: (-spans[name].bytes, name)):
        span, conflicts = rounded[name], apart.get(name, frozenset())
        starts: dict[int, int] = {}
        for number, placed in enumerate(offsets):
            start = _best_gap(rounded, placed, neighbours[name], span.bytes)
            if start + span.bytes <= limit and not any(one in placed for one in conflicts):
                starts[number] = start
        growth = {n: max(0, start + span.bytes - sizes[n]) for n, start in starts.items()}
        number = min(growth, key=lambda one: growth[one], default=len(offsets))
        if number == len(offsets):
            offsets.append({})
            sizes.append(0)
        offset = starts.get(number, 0)
        offsets[number][name] = offset
        sizes[number] = max(sizes[number], offset + span.bytes)
    return [Arena(placed, size) for placed, size in zip(offsets, sizes, strict=True)]


def _by_launch(spans: Mapping[str, Span]) -> Iterator[tuple[str, dict[str, None]]]:
    """Yield each value as it begins to live, with those that live already."""
    ends = sorted(spans, key=lambda name: spans[name].last, reverse=True)
    living: dict[str, None] = {}
    for name in sorted(spans, key=lambda name: spans[name].first):
        while ends and spans[ends[-1]].last < spans[name].first:
            living.pop(ends.pop())
        yield name, living
        living[name] = None


def find_neighbours(spans: Mapping[str, Span]) -> Neighbours | None:
    """Return the values that live at the same time as each value; None if they are too many."""
    neighbours: dict[str, list[str]] = {name: [] for name in spans}
    pairs = 0
    for name, living in _by_launch(spans):
        pairs += len(living)
        if pairs > MAX_PAIRS:
            return None
        neighbours[name] += living
        for other in living:
            neighbours[other].append(name)
    return neighbours


def peak_live_bytes(spans: Mapping[str, Span]) -> int:
    """Return the peak of live bytes: no arena can be smaller."""
    peak = 0
    for name, living in _by_launch(spans):
        peak = max(peak, spans[name].bytes + sum(spans[other].bytes for other in living))
    return peak


def _place(spans: Mapping[str, Span], order: Sequence[str], neighbours: Neighbours) -> Arena:
    """Place each value in turn into the smallest gap that it fits into."""
    offsets: dict[str, int] = {}
    for name in order:
        offsets[name] = _best_gap(spans, offsets, neighbours[name], spans[name].bytes)
    size = max((offset + spans[name].bytes for name, offset in offsets.items()), default=0)
    return Arena(offsets, size)


def _best_gap(
    spans: Mapping[str, Span], placed: Mapping[str, int], neighbours: Sequence[str], size: int
) -> int:
    """Return the start of the smallest gap among values alive at the same time, or their end."""
    alive = sorted(
        (placed[other], placed[other] + spans[other].bytes)
        for other in neighbours
        if other in placed
    )
    best, smallest, cursor = None, None, 0
    for start, end in alive:
        gap = start - cursor
        if gap >= size and (smallest is None or gap < smallest):
            best, smallest = cursor, gap
        cursor = max(cursor, end)
    return cursor if best is None else best


def _place_without_search(
    spans: Mapping[str, Span], limit: int, apart: Mapping[str, Set[str]]
) -> list[Arena]:
    """Place values in the order of their launches: where one of equal size was, or at the end.

    Only the last arenas take further values.
    """
    offsets: list[dict[str, int]] = [{}]
    sizes, free = [0], [dict[int, list[int]]()]
    ends = sorted(spans, key=lambda name: spans[name].last, reverse=True)
    arena_of: dict[str, int] = {}
    for name in sorted(spans, key=lambda name: spans[name].first):
        span, conflicts = spans[name], apart.get(name, frozenset())
        while ends and spans[ends[-1]].last < span.first:
            old = ends.pop()
            number = arena_of[old]
            free[number].setdefault(spans[old].bytes, []).append(offsets[number][old])
        for number in range(len(sizes) - 1, max(-1, len(sizes) - 1 - MAX_OPEN_ARENAS), -1):
            end = sizes[number] + span.bytes
            fits = free[number].get(span.bytes) or end <= limit or not sizes[number]
            if fits and not any(arena_of.get(one) == number for one in conflicts):
                break
        else:
            number = len(sizes)
            offsets.append({})
            sizes.append(0)
            free.append({})
        gaps = free[number].get(span.bytes)
        offsets[number][name] = gaps.pop() if gaps else sizes[number]
        sizes[number] = max(sizes[number], offsets[number][name] + span.bytes)
        arena_of[name] = number
    return [Arena(placed, size) for placed, size in zip(offsets, sizes, strict=True)]


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
