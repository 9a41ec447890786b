"""The arena: values that live together never overlap, and its size is near the minimum."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.compiler.lower import allocation
from fourfold.compiler.lower import constants as constants_module
from fourfold.compiler.lower.allocation import (
    Span,
    assign_arenas,
    assign_offsets,
    find_neighbours,
    peak_live_bytes,
)
from fourfold.compiler.lower.constants import Constants
from fourfold.graph import Graph


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


@pytest.mark.parametrize("seed", range(10))
def test_neighbours_and_peak_equal_those_of_all_pairs(seed: int) -> None:
    random = np.random.default_rng(seed)
    firsts, lengths = random.integers(0, 20, 30), random.integers(0, 9, 30)
    spans = {
        f"v{number}": Span(1 + number, int(first), int(first + length))
        for number, (first, length) in enumerate(zip(firsts, lengths, strict=True))
    }
    neighbours = find_neighbours(spans)
    assert neighbours is not None
    for name, span in spans.items():
        others = {n for n, other in spans.items() if n != name and span.overlaps(other)}
        assert sorted(neighbours[name]) == sorted(others)
    assert peak_live_bytes(spans) == bound(spans)


def test_long_chain_has_as_many_pairs_as_neighbours() -> None:
    spans = {f"v{number}": Span(64, number, number + 1) for number in range(1000)}
    neighbours = find_neighbours(spans)
    assert neighbours is not None
    assert sum(map(len, neighbours.values())) == 2 * 999


@pytest.mark.parametrize("seed", range(10))
def test_too_many_pairs_are_placed_without_a_search(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "MAX_PAIRS", 20)
    random = np.random.default_rng(seed)
    spans = {}
    for number in range(60):
        first, size = int(random.integers(0, 30)), 64 * int(random.integers(1, 4))
        spans[f"v{number}"] = Span(size, first, first + int(random.integers(0, 9)))
    offsets, total = assign_offsets(spans, 64)
    assert overlaps(spans, offsets) == []
    assert total == max(offsets[name] + spans[name].bytes for name in spans)
    assert total < sum(span.bytes for span in spans.values())
    apart = {f"v{number}": {f"v{number + 1}"} for number in range(0, 60, 2)}
    apart |= {f"v{number + 1}": {f"v{number}"} for number in range(0, 60, 2)}
    arenas = assign_arenas(spans, 64, 640, apart)
    assert sorted(name for arena in arenas for name in arena.offsets) == sorted(spans)
    for arena in arenas:
        assert arena.size <= 640
        members = {name: spans[name] for name in arena.offsets}
        assert overlaps(members, dict(arena.offsets)) == []
        assert not any(apart[name] & arena.offsets.keys() for name in arena.offsets)


def test_value_beyond_the_limit_has_an_arena_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allocation, "MAX_PAIRS", 0)
    arenas = assign_arenas({"a": Span(1000, 0, 1), "b": Span(1000, 0, 1)}, 64, 128)
    assert [arena.size for arena in arenas] == [1024, 1024]


def constants_of(*arrays: np.ndarray) -> list[int]:
    constants = Constants(Graph((), (), (), {}))
    return [constants.offset(array) for array in arrays]


def test_equal_constants_are_stored_once() -> None:
    ones = np.ones(100, np.float32)
    other = ones.copy()
    other[-1] = 2  # differs after the bytes that are compared first
    offsets = constants_of(ones, other, ones, ones.copy(), other.copy(), ones[:50].copy())
    assert offsets == [0, 448, 0, 0, 448, 896]


def test_digests_are_computed_only_for_constants_that_start_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digested = []
    digest = constants_module._digest
    monkeypatch.setattr(
        constants_module, "_digest", lambda flat: digested.append(flat.size) or digest(flat)
    )
    constants_of(*(np.full(100, number, np.float32) for number in range(50)))
    assert digested == []
    constants_of(*(np.append(np.ones(99, np.float32), number) for number in range(50)))
    assert len(digested) == 50  # one for each, not one for each pair
