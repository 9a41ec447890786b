"""Names that are all different, for files whose own names are not."""

from __future__ import annotations

from collections.abc import Iterable


class UniqueNames:
    """Hands out names, with a number on those that are taken: 'x', 'x:1', 'x:2'."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        found = name
        while found in self._taken:
            number = self._next[name] = self._next.get(name, 0) + 1
            found = f"{name}:{number}"
        self._taken.add(found)
        return found


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The same names, made different from each other."""
    taken = UniqueNames()
    return tuple(taken.fresh(name) for name in names)
