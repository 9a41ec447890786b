"""A home for every value, safe from kernels that run while it is needed: alone, or side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fourfold.graph import Graph
from fourfold.kernel.place import Place
from fourfold.lower.assemble import ARENA, CONSTANT_ALIGNMENT, Homes, memory_uses, value_use
from fourfold.lower.launches import Built
from fourfold.lower.levels import Turn, arrangements, one_by_one
from fourfold.lower.memory import Span, assign_offsets
from fourfold.lower.needs import find_needs
from fourfold.lower.one_launch import LARGEST
from fourfold.plan import Argument, Launch

MORE = 8  # a part of the arena by which it may grow, so that stages run side by side
LITTLE = 1 << 20  # bytes by which it may grow in any case


class Memory:
    """What kernels touch, and where that may lie: values that are `fixed` fill a buffer of their
    own, the others share the arena.
    """

    def __init__(
        self,
        graph: Graph,
        built: Sequence[Built],
        places: Mapping[str, Place],
        fixed: Mapping[str, int],
        alignment: int,
    ) -> None:
        self._graph, self._built, self._fixed = graph, built, fixed
        self._uses = [*memory_uses(graph, built, places)]
        self._alignment = max(CONSTANT_ALIGNMENT, alignment)

    @property
    def moved(self) -> int:
        """Bytes of values that all kernels read and write."""
        return sum(size for *_, size in self._uses)

    def homes(self, turns: Sequence[Turn] | None = None) -> Homes:
        """Homes in which no kernel harms what others need; without turns, each runs alone."""
        turns = one_by_one(len(self._built)) if turns is None else turns
        spans: dict[str, Span] = {}
        for number, root, size in self._uses:
            if root not in self._fixed:
                turn, span = turns[number], spans.get(root, Span(size, *turns[number]))
                spans[root] = Span(size, min(span.first, turn.first), max(span.last, turn.last))
        offsets, arena = assign_offsets(spans, self._alignment)
        homes = {name: (number, 0) for name, number in self._fixed.items()}
        homes.update({root: (ARENA, offset) for root, offset in offsets.items()})
        return Homes(homes, arena)

    def arranged(
        self, launches: Sequence[Launch], alone: Homes, shares: bool
    ) -> tuple[list[Turn], tuple[Launch, ...], int]:
        """Turns of few levels, the launches with the homes that go with them, and the arena's size.

        Where groups do not share their stages, or that would take much more memory, each of them
        runs `alone`.
        """
        most = min(alone.arena + max(alone.arena // MORE, LITTLE), LARGEST)
        for turns in self._ways() if shares else ():
            homes = self.homes(turns)
            if homes.arena <= most:
                pairs = zip(launches, self._built, strict=True)
                moved = tuple(_moved(launch, item, homes) for launch, item in pairs)
                return turns, moved, homes.arena
        return one_by_one(len(launches)), tuple(launches), alone.arena

    def _ways(self) -> Iterator[list[Turn]]:
        return arrangements(find_needs(self._graph, self._built, self._fixed))


def _moved(launch: Launch, item: Built, homes: Homes) -> Launch:
    """The launch of a kernel whose values have these homes now."""
    arguments: list[Argument] = [*launch.arguments]
    for number, argument in enumerate(item.kernel.buffers):
        use = value_use(argument, homes)
        if use is not None:
            arguments[number] = use
    return launch._replace(arguments=tuple(arguments))
