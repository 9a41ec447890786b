"""Which stages of one launch run side by side: an order with as few grid barriers as can be.

The stages between two grid barriers are a level. A stage that is needed late enough begins
while groups wait for each other, and is due at the barrier after that: it takes up two levels, and
the time that a barrier takes is not lost. Stages that share a level may run in any order, and at
once.
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
        """Whether it runs across a grid barrier."""
        return self.last > self.first


def one_by_one(count: int) -> list[LevelSpan]:
    """A level for each stage, as they come."""
    return [LevelSpan(number, number) for number in range(count)]


def between(before: int, levels: Sequence[LevelSpan], after: int) -> list[LevelSpan]:
    """The same levels behind so many stages that need nothing, and before so many that may need any
    of them.
    """
    later = min(before, 1)
    moved = [LevelSpan(span.first + later, span.last + later) for span in levels]
    end = 1 + max((span.last for span in moved), default=later - 1)
    return [LevelSpan(0, 0)] * before + moved + [LevelSpan(end, end)] * after


def arrangements(dependencies: Dependencies) -> Iterator[list[LevelSpan]]:
    """Levels for stages that need others before them, the way with the fewest barriers first, then
    one that keeps their order.
    """
    yield _fill_barriers(dependencies)
    yield _keep_order(dependencies)


def _fill_barriers(dependencies: Dependencies) -> list[LevelSpan]:
    """As early as can be; who can wait crosses the next barrier that nobody else does."""
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
    """None begins before those in front of it: neighbours share a level if they may."""
    levels: list[LevelSpan] = []
    for others in dependencies:
        level = max(_after(levels, others), levels[-1].last if levels else 0)
        levels.append(LevelSpan(level, level))
    return levels


def _after(levels: Sequence[LevelSpan], others: frozenset[int]) -> int:
    return 1 + max((levels[other].last for other in others), default=-1)


def _latest(dependencies: Dependencies) -> list[int]:
    """The last level in which each stage can run, if there are as few of them as can be."""
    earliest: list[int] = []
    for others in dependencies:
        earliest.append(1 + max((earliest[other] for other in others), default=-1))
    latest = [max(earliest, default=0)] * len(dependencies)
    for number in reversed(range(len(dependencies))):
        for other in dependencies[number]:
            latest[other] = min(latest[other], latest[number] - 1)
    return latest
