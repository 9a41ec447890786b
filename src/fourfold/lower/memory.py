"""One arena for all values between kernels: offsets chosen greedily, by the best of some orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

TRIES = 40


@dataclass(frozen=True)
class Span:
    """How much memory a value needs, and the first and last launch that touch it."""

    bytes: int
    first: int
    last: int

    def overlaps(self, other: Span) -> bool:
        """Whether both live at the same time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """Where each value starts, and how large the arena is."""

    offsets: Mapping[str, int]
    size: int


def assign_offsets(spans: Mapping[str, Span], alignment: int) -> tuple[dict[str, int], int]:
    """Where each value starts in the arena, and how large the arena is.

    Values that live at the same time never overlap. The largest value is placed first. Where that
    leaves the arena larger than what lives at once, whoever lies at its end is placed earlier, as
    long as that helps.
    """
    rounded = {
        name: Span(-(-span.bytes // alignment) * alignment, span.first, span.last)
        for name, span in spans.items()
    }
    order = sorted(rounded, key=lambda name: (-rounded[name].bytes, rounded[name].first, name))
    best, least = _place(rounded, order), least_bytes(rounded)
    found = best
    for _ in range(TRIES):
        if best.size == least:
            break
        last = max(order, key=lambda name: found.offsets[name] + rounded[name].bytes)
        order = [last, *(name for name in order if name != last)]
        found = _place(rounded, order)
        best = min(best, found, key=lambda arena: arena.size)
    return dict(best.offsets), best.size


def assign_arenas(
    spans: Mapping[str, Span],
    alignment: int,
    limit: int,
    apart: Mapping[str, Set[str]] = MappingProxyType({}),
) -> list[Arena]:
    """The same for several arenas, each within the limit unless one value alone is beyond it;
    values that must lie `apart` are in different ones. The largest value is placed first; each goes
    to the arena that grows the least by it.
    """
    arenas: list[list[tuple[int, int, Span]]] = []
    found: list[dict[str, int]] = []
    for name, span in sorted(spans.items(), key=lambda item: (-item[1].bytes, item[0])):
        rounded = Span(-(-span.bytes // alignment) * alignment, span.first, span.last)
        strangers = apart.get(name, frozenset())
        ends: dict[int, int] = {}
        for number, placed in enumerate(arenas):
            end = _best_gap(placed, rounded) + rounded.bytes
            if end <= limit and strangers.isdisjoint(found[number]):
                ends[number] = max(0, end - _size(placed))
        number = min(ends, key=lambda one: ends[one], default=len(arenas))
        if number == len(arenas):
            arenas.append([])
            found.append({})
        offset = _best_gap(arenas[number], rounded)
        arenas[number].append((offset, offset + rounded.bytes, rounded))
        found[number][name] = offset
    return [Arena(offsets, _size(placed)) for offsets, placed in zip(found, arenas, strict=True)]


def _size(placed: Iterable[tuple[int, int, Span]]) -> int:
    return max((end for _, end, _ in placed), default=0)


def least_bytes(spans: Mapping[str, Span]) -> int:
    """The most that lives at once: no arena can be smaller."""
    return max(
        (
            sum(other.bytes for other in spans.values() if other.first <= span.first <= other.last)
            for span in spans.values()
        ),
        default=0,
    )


def _place(spans: Mapping[str, Span], order: Sequence[str]) -> Arena:
    """Each value in turn takes the smallest gap that it fits into."""
    placed: list[tuple[int, int, Span]] = []
    offsets: dict[str, int] = {}
    for name in order:
        span = spans[name]
        offset = _best_gap(placed, span)
        placed.append((offset, offset + span.bytes, span))
        offsets[name] = offset
    return Arena(offsets, _size(placed))


def _best_gap(placed: list[tuple[int, int, Span]], span: Span) -> int:
    """The start of the smallest gap among values alive at the same time, or the end of them all."""
    alive = sorted((start, end) for start, end, other in placed if other.overlaps(span))
    best, smallest, cursor = None, None, 0
    for start, end in alive:
        gap = start - cursor
        if gap >= span.bytes and (smallest is None or gap < smallest):
            best, smallest = cursor, gap
        cursor = max(cursor, end)
    return cursor if best is None else best
