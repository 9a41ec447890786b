"""Makes names unique."""

from __future__ import annotations

from collections.abc import Iterable


class UniqueNames:
    """Returns unique names by numbering those already taken: 'x', 'x:1', 'x:2'."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        unused = name
        while unused in self._taken:
            number = self._next[name] = self._next.get(name, 0) + 1
            unused = f"{name}:{number}"
        self._taken.add(unused)
        return unused


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, with numbers added to repeated ones."""
    taken = UniqueNames()
    return tuple(taken.fresh(name) for name in names)
