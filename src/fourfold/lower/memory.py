"""One arena for all values between kernels: offsets chosen greedily, the largest value first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """How much memory a value needs, and the first and last launch that touch it."""

    bytes: int
    first: int
    last: int


def assign_offsets(spans: Mapping[str, Span], alignment: int) -> tuple[dict[str, int], int]:
    """Where each value starts in the arena, and how large the arena is.

    Values that live at the same time never overlap; each takes the smallest gap that it fits into.
    """
    placed: list[tuple[int, int, Span]] = []
    offsets: dict[str, int] = {}
    for name, span in sorted(
        spans.items(), key=lambda item: (-item[1].bytes, item[1].first, item[0])
    ):
        size = -(-span.bytes // alignment) * alignment
        offset = _best_gap(placed, span, size)
        placed.append((offset, offset + size, span))
        offsets[name] = offset
    return offsets, max((end for _, end, _ in placed), default=0)


def _best_gap(placed: list[tuple[int, int, Span]], span: Span, size: int) -> int:
    """The start of the smallest gap among values alive at the same time, or the end of them all."""
    alive = sorted(
        (start, end)
        for start, end, other in placed
        if other.first <= span.last and span.first <= other.last
    )
    best, smallest, cursor = None, None, 0
    for start, end in alive:
        gap = start - cursor
        if gap >= size and (smallest is None or gap < smallest):
            best, smallest = cursor, gap
        cursor = max(cursor, end)
    return cursor if best is None else best
