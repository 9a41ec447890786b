"""Which stages of one launch run side by side: an order in which groups meet as seldom as can be.

The stages between two meetings of all groups are a level. A stage that is needed late enough begins
while groups wait for each other, and is due at the meeting after that: it takes up two levels, and
the time that a meeting takes is not lost. Stages that share a level may run in any order, and at
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

Needs = Sequence[frozenset[int]]


class Turn(NamedTuple):
    """The first and the last level of a stage."""

    first: int
    last: int

    @property
    def crosses(self) -> bool:
        """Whether it runs across a meeting."""
        return self.last > self.first


def one_by_one(count: int) -> list[Turn]:
    """A level for each stage, as they come."""
    return [Turn(number, number) for number in range(count)]


def between(before: int, turns: Sequence[Turn], after: int) -> list[Turn]:
    """The same turns behind so many stages that need nothing, and before so many that may need any
    of them.
    """
    later = min(before, 1)
    moved = [Turn(turn.first + later, turn.last + later) for turn in turns]
    end = 1 + max((turn.last for turn in moved), default=later - 1)
    return [Turn(0, 0)] * before + moved + [Turn(end, end)] * after


def arrangements(needs: Needs) -> Iterator[list[Turn]]:
    """Turns for stages that need others before them, the way with the fewest meetings first, then
    one that keeps their order.
    """
    yield _fill_meetings(needs)
    yield _keep_order(needs)


def _fill_meetings(needs: Needs) -> list[Turn]:
    """As early as can be; who can wait crosses the next meeting that nobody else does."""
    latest = _latest(needs)
    turns: list[Turn] = []
    crossed: set[int] = set()
    for number, others in enumerate(needs):
        first = _after(turns, others)
        free = (level for level in range(first, latest[number]) if level not in crossed)
        level = next(free, None)
        if level is None:
            turns.append(Turn(first, first))
        else:
            crossed.add(level)
            turns.append(Turn(level, level + 1))
    return turns


def _keep_order(needs: Needs) -> list[Turn]:
    """None begins before those in front of it: neighbours share a level if they may."""
    turns: list[Turn] = []
    for others in needs:
        level = max(_after(turns, others), turns[-1].last if turns else 0)
        turns.append(Turn(level, level))
    return turns


def _after(turns: Sequence[Turn], others: frozenset[int]) -> int:
    return 1 + max((turns[other].last for other in others), default=-1)


def _latest(needs: Needs) -> list[int]:
    """The last level in which each stage can run, if there are as few of them as can be."""
    earliest: list[int] = []
    for others in needs:
        earliest.append(1 + max((earliest[other] for other in others), default=-1))
    latest = [max(earliest, default=0)] * len(needs)
    for number in reversed(range(len(needs))):
        for other in needs[number]:
            latest[other] = min(latest[other], latest[number] - 1)
    return latest
