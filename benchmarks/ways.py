"""Ways to run a model beside that from NumPy to NumPy, as compare.py shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peers import title_of

WAYS = ("bytes", "tensors", "torch")
FLOATS = "run"  # from NumPy to NumPy, which every engine has


def ways_table(
    rows: Sequence[dict[str, Any]], engines: Sequence[str], ways: Sequence[str]
) -> list[str]:
    """Every way of every engine: the median, the minimum, and what the first engine takes of it."""
    lines = ["| model | way | engine | median ms | min ms | first of it | of minima | runs |"]
    lines.append("|---|---|---|--:|--:|--:|--:|--:|")
    for row in rows:
        for way in (FLOATS, *ways):
            title = "floats" if way == FLOATS else way
            first = times_of(row, engines[0], way)
            for name in engines:
                cells = (row["model"], title, title_of(name), *_cells(row, name, way, first))
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def times_of(row: dict[str, Any], engine: str, way: str) -> dict[str, float] | None:
    found: dict[str, float] | None = row["engines"][engine]["seconds"].get(way)
    return found


def _cells(
    row: dict[str, Any], name: str, way: str, first: dict[str, float] | None
) -> tuple[str, ...]:
    found = times_of(row, name, way)
    if found is None:
        engine = row["engines"][name]
        return (engine["missing"] or engine["facts"].get(f"no {way}", "–"), "–", "–", "–", "–")
    shares = ("–", "–")
    if first is not None:
        shares = tuple(f"{first[which] / found[which]:.2f}" for which in ("median", "min"))
    times = (f"{found[which] * 1e3:.4f}" for which in ("median", "min"))
    return (*times, *shares, str(found["runs"]))
