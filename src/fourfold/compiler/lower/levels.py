"""Orders the stages of one launch with as few grid barriers as possible.

The stages between two grid barriers are a level; they may run in any order, and concurrently. A
stage whose result is needed late enough begins while groups wait for each other, and finishes
before the barrier after that: it spans two levels, and uses the time that a barrier takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

Dependencies = Sequence[frozenset[int]]


class LevelSpan(NamedTuple):
    """The first and the last level of a stage."""

    first: int
    last: int

    @property
    def crosses(self) -> bool:
        """True if the stage runs across a grid barrier."""
        return self.last > self.first


def sequential_levels(count: int) -> list[LevelSpan]:
    """Return a level for each stage, in order."""
    return [LevelSpan(number, number) for number in range(count)]


def surround_levels(before: int, levels: Sequence[LevelSpan], after: int) -> list[LevelSpan]:
    """Shift levels after `before` independent stages, and append `after` stages.

    The stages at the end may depend on any other.
    """
    later = min(before, 1)
    moved = [LevelSpan(span.first + later, span.last + later) for span in levels]
    end = 1 + max((span.last for span in moved), default=later - 1)
    return [LevelSpan(0, 0)] * before + moved + [LevelSpan(end, end)] * after


def arrangements(dependencies: Dependencies) -> Iterator[list[LevelSpan]]:
    """Yield levels for dependent stages: those with the fewest barriers first, then in order."""
    yield _fill_barriers(dependencies)
    yield _keep_order(dependencies)


def _fill_barriers(dependencies: Dependencies) -> list[LevelSpan]:
    """Place stages early; one that can wait crosses a barrier that no other crosses."""
    latest = _latest(dependencies)
    levels: list[LevelSpan] = []
    crossed: set[int] = set()
    for number, others in enumerate(dependencies):
        first = _after(levels, others)
        free = (level for level in range(first, latest[number]) if level not in crossed)
        level = next(free, None)
        if level is None:
            levels.append(LevelSpan(first, first))
        else:
            crossed.add(level)
            levels.append(LevelSpan(level, level + 1))
    return levels


def _keep_order(dependencies: Dependencies) -> list[LevelSpan]:
    """Keep stages in order: neighbours share a level if they are independent."""
    levels: list[LevelSpan] = []
    for others in dependencies:
        level = max(_after(levels, others), levels[-1].last if levels else 0)
        levels.append(LevelSpan(level, level))
    return levels


def _after(levels: Sequence[LevelSpan], others: frozenset[int]) -> int:
    return 1 + max((levels[other].last for other in others), default=-1)


def _latest(dependencies: Dependencies) -> list[int]:
    """Return the last level in which each stage can run, with as few levels as possible."""
    earliest: list[int] = []
    for others in dependencies:
        earliest.append(1 + max((earliest[other] for other in others), default=-1))
    latest = [max(earliest, default=0)] * len(dependencies)
    for number in reversed(range(len(dependencies))):
        for other in dependencies[number]:
            latest[other] = min(latest[other], latest[number] - 1)
    return latest
