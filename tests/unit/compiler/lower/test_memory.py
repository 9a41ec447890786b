"""The arena: values that live together never overlap, and its size is near the minimum."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.compiler.lower.allocation import Span, assign_arenas, assign_offsets, peak_live_bytes


def bound(spans: dict[str, Span]) -> int:
    """Return the peak of live bytes: no arena can be smaller."""
    moments = range(1 + max(span.last for span in spans.values()))
    return max(sum(s.bytes for s in spans.values() if s.first <= t <= s.last) for t in moments)


def overlaps(spans: dict[str, Span], offsets: dict[str, int]) -> list[tuple[str, str]]:
    names = list(spans)
    return [
        (a, b)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        if spans[a].first <= spans[b].last
        and spans[b].first <= spans[a].last
        and offsets[a] < offsets[b] + spans[b].bytes
        and offsets[b] < offsets[a] + spans[a].bytes
    ]


@pytest.mark.parametrize("seed", range(30))
def test_random_lives_never_overlap(seed: int) -> None:
    random = np.random.default_rng(seed)
    spans = {}
    for number in range(40):
        first = int(random.integers(0, 30))
        spans[f"v{number}"] = Span(
            int(random.integers(1, 999)), first, first + int(random.integers(0, 9))
        )
    offsets, total = assign_offsets(spans, 64)
    assert overlaps(spans, offsets) == []
    assert all(offset % 64 == 0 for offset in offsets.values())
    assert total >= max(offsets[name] + spans[name].bytes for name in spans)


def test_a_chain_takes_its_largest_pair() -> None:
    sizes = [64 * n for n in (3, 10, 20, 5, 9, 1)]
    spans = {f"v{n}": Span(size, n, n + 1) for n, size in enumerate(sizes)}
    offsets, total = assign_offsets(spans, 64)
    assert overlaps(spans, offsets) == []
    assert total == bound(spans) == 64 * 30


def test_value_at_the_end_is_placed_earlier_if_that_helps() -> None:
    """Placing the largest first (b, then d and e above each other) leaves no space for a
    below 17.
    """
    lives = {"a": (4, 4, 4), "b": (7, 3, 3), "c": (1, 1, 3), "d": (6, 4, 5), "e": (6, 2, 4)}
    spans = {name: Span(64 * size, *life) for name, (size, *life) in lives.items()}
    offsets, total = assign_offsets(spans, 64)
    assert overlaps(spans, offsets) == []
    assert total == bound(spans) == peak_live_bytes(spans) == 64 * 16


def test_no_values_need_no_memory() -> None:
    assert assign_offsets({}, 64) == ({}, 0)


def test_several_arenas_keep_a_limit() -> None:
    spans = {f"v{n}": Span(64 * (1 + n % 5), n, n + 3) for n in range(40)}
    arenas = assign_arenas(spans, 64, 640)
    assert len(arenas) > 1
    assert max(arena.size for arena in arenas) <= 640
    assert sorted(name for arena in arenas for name in arena.offsets) == sorted(spans)
    for arena in arenas:
        for one, start in arena.offsets.items():
            for other, at in arena.offsets.items():
                apart = start + spans[one].bytes <= at or at + spans[other].bytes <= start
                assert one == other or apart or not spans[one].overlaps(spans[other])


def test_a_value_beyond_the_limit_has_its_own_arena() -> None:
    arenas = assign_arenas({"large": Span(1000, 0, 1), "small": Span(64, 0, 1)}, 64, 128)
    assert [arena.size for arena in arenas] == [1024, 64]
