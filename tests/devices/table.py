"""Rows of results as Markdown: a table, and by name what is not as it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from devices.results import GROUPS, OPS, PASSED, SKIPPED, Result, Row

HEAD = "| implementation | device | threads | op tests | models, fp32 | models, mixed | fp16 |"
LINE = "|---|---|--:|---|---|---|---|"
MOST = 5  # tests that are named for one reason
WIDTH = 110


def table(rows: Iterable[Row]) -> Iterator[str]:
    yield HEAD
    yield LINE
    for row in rows:
        title = f"{row.implementation} {row.driver}".strip()
        cells = (cell(row, group) for group in GROUPS)
        yield f"| {title} | {row.device} | {row.threads} | {' | '.join(cells)} |"


def cell(row: Row, group: str) -> str:
    """'all 607', '605 of 607', or why there is nothing."""
    tried = [result for result in row.of(group) if result.outcome != SKIPPED]
    if not tried:
        device = f"{row.device} "
        reasons = {result.words.removeprefix(device) for result in row.of(group, SKIPPED)}
        return row.note or (min(reasons) if len(reasons) == 1 else "-")
    passed = len(row.of(group, PASSED))
    counted = f"all {passed}" if passed == len(tried) else f"**{passed} of {len(tried)}**"
    return f"{counted}, {row.note}" if row.note else counted


def faults(rows: Sequence[Row]) -> Iterator[str]:
    """Tests that failed, under what they failed of, so that one cause is one line."""
    for row in rows:
        causes: dict[str, list[Result]] = {}
        for result in row.bad:
            causes.setdefault(f"{result.outcome}: {_short(result.words)}", []).append(result)
        for cause, results in sorted(causes.items(), key=lambda item: -len(item[1])):
            names = [result.title for result in results[:MOST]]
            rest = f", and {len(results) - MOST} more" if len(results) > MOST else ""
            who = f"{row.implementation} {row.driver}, threads {row.threads}"
            yield f"- {who}: {cause} ({', '.join(names)}{rest})"


def skips(rows: Iterable[Row]) -> Iterator[str]:
    """Why op tests were not run, each reason with how many and where."""
    reasons: dict[str, Counter[str]] = {}
    for row in rows:
        for result in row.of(OPS, SKIPPED):
            words = result.words.replace(row.device, "it") if row.device else result.words
            title = f"{row.implementation} {row.driver}, threads {row.threads}"
            reasons.setdefault(_short(words), Counter())[title] += 1
    for reason, counted in reasons.items():
        where = "; ".join(f"{count} on {title}" for title, count in counted.items())
        yield f"- skipped, {reason}: {where}"


def _short(words: str) -> str:
    return words if len(words) <= WIDTH else f"{words[:WIDTH]}…"
