"""Assigns arena offsets to values between kernels, greedily, with the best of several orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

MAX_TRIES = 40


@dataclass(frozen=True)
class Span:
    """The size of a value, and the first and last launch that use it."""

    bytes: int
    first: int
    last: int

    def overlaps(self, other: Span) -> bool:
        """Return whether both live at the same time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """The offset of each value, and the size of the arena."""

    offsets: Mapping[str, int]
    size: int


def assign_offsets(spans: Mapping[str, Span], alignment: int) -> tuple[dict[str, int], int]:
    """Return the offset of each value in the arena, and the size of the arena.

    Values that live at the same time never overlap. The largest value is placed first. If the arena
    is then larger than the peak of live values, the value at its end is placed earlier, repeatedly.
    """
    rounded = {
        name: Span(-(-span.bytes // alignment) * alignment, span.first, span.last)
        for name, span in spans.items()
    }
    order = sorted(rounded, key=lambda name: (-rounded[name].bytes, rounded[name].first, name))
    best, peak = _place(rounded, order), peak_live_bytes(rounded)
    arena_now = best
    for _ in range(MAX_TRIES):
        if best.size == peak:
            break
        last = max(order, key=lambda name: arena_now.offsets[name] + rounded[name].bytes)
        order = [last, *(name for name in order if name != last)]
        arena_now = _place(rounded, order)
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
    arenas: list[list[tuple[int, int, Span]]] = []
    offsets_by_arena: list[dict[str, int]] = []
    for name, span in sorted(spans.items(), key=lambda item: (-item[1].bytes, item[0])):
        rounded = Span(-(-span.bytes // alignment) * alignment, span.first, span.last)
        conflicts = apart.get(name, frozenset())
        ends: dict[int, int] = {}
        for number, placed in enumerate(arenas):
            end = _best_gap(placed, rounded) + rounded.bytes
            if end <= limit and conflicts.isdisjoint(offsets_by_arena[number]):
                ends[number] = max(0, end - _size(placed))
        number = min(ends, key=lambda one: ends[one], default=len(arenas))
        if number == len(arenas):
            arenas.append([])
            offsets_by_arena.append({})
        offset = _best_gap(arenas[number], rounded)
        arenas[number].append((offset, offset + rounded.bytes, rounded))
        offsets_by_arena[number][name] = offset
    return [
        Arena(offsets, _size(placed))
        for offsets, placed in zip(offsets_by_arena, arenas, strict=True)
    ]


def _size(placed: Iterable[tuple[int, int, Span]]) -> int:
    return max((end for _, end, _ in placed), default=0)


def peak_live_bytes(spans: Mapping[str, Span]) -> int:
    """Return the peak of live bytes: no arena can be smaller."""
    return max(
        (
            sum(other.bytes for other in spans.values() if other.first <= span.first <= other.last)
            for span in spans.values()
        ),
        default=0,
    )


def _place(spans: Mapping[str, Span], order: Sequence[str]) -> Arena:
    """Place each value in turn into the smallest gap that it fits into."""
    placed: list[tuple[int, int, Span]] = []
    offsets: dict[str, int] = {}
    for name in order:
        span = spans[name]
        offset = _best_gap(placed, span)
        placed.append((offset, offset + span.bytes, span))
        offsets[name] = offset
    return Arena(offsets, _size(placed))


def _best_gap(placed: list[tuple[int, int, Span]], span: Span) -> int:
    """Return the start of the smallest gap among values alive at the same time, or their end."""
    alive = sorted((start, end) for start, end, other in placed if other.overlaps(span))
    best, smallest, cursor = None, None, 0
    for start, end in alive:
        gap = start - cursor
        if gap >= span.bytes and (smallest is None or gap < smallest):
            best, smallest = cursor, gap
        cursor = max(cursor, end)
    return cursor if best is None else best
