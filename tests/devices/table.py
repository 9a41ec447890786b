"""Result rows as Markdown: a table, and a list of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from devices.results import GROUPS, OPS, PASSED, SKIPPED, Result, Row

HEAD = "| implementation | device | threads | op tests | models, fp32 | models, mixed | fp16 |"
LINE = "|---|---|--:|---|---|---|---|"
MAX_NAMED_TESTS = 5  # per reason
WIDTH = 110


def table(rows: Iterable[Row]) -> Iterator[str]:
    yield HEAD
    yield LINE
    for row in rows:
        title = f"{row.implementation} {row.driver}".strip()
        cells = (cell(row, group) for group in GROUPS)
        yield f"| {title} | {row.device} | {row.threads} | {' | '.join(cells)} |"


def cell(row: Row, group: str) -> str:
    """Return 'all 607', '605 of 607', or why there are no results."""
    tried = [result for result in row.of(group) if result.outcome != SKIPPED]
    if not tried:
        device = f"{row.device} "
        reasons = {result.words.removeprefix(device) for result in row.of(group, SKIPPED)}
        return row.note or (min(reasons) if len(reasons) == 1 else "-")
    passed = len(row.of(group, PASSED))
    counted = f"all {passed}" if passed == len(tried) else f"**{passed} of {len(tried)}**"
    return f"{counted}, {row.note}" if row.note else counted


def faults(rows: Sequence[Row]) -> Iterator[str]:
    """Yield failed tests grouped by reason, one line per cause."""
    for row in rows:
        causes: dict[str, list[Result]] = {}
        for result in row.bad:
            causes.setdefault(f"{result.outcome}: {_short(result.words)}", []).append(result)
        for cause, results in sorted(causes.items(), key=lambda item: -len(item[1])):
            names = [result.title for result in results[:MAX_NAMED_TESTS]]
            remaining = (
                f", and {len(results) - MAX_NAMED_TESTS} more"
                if len(results) > MAX_NAMED_TESTS
                else ""
            )
            who = f"{row.implementation} {row.driver}, threads {row.threads}"
            yield f"- {who}: {cause} ({', '.join(names)}{remaining})"


def skips(rows: Iterable[Row]) -> Iterator[str]:
    """Yield why op tests were skipped: each reason with count and device."""
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
