"""Makes names unique, and texts of a model safe to print: terminals interpret control codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from fourfold.support.display import visible


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


MAX_CHARACTERS = 2**16
MAX_PROPERTIES = 256


def printable(text: str) -> str:
    """Return the text with control characters escaped, cut to a readable length."""
    return visible(text[:MAX_CHARACTERS])


def short_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the first properties of a file, escaped and shortened."""
    pairs = islice(properties.items(), MAX_PROPERTIES)
    return {printable(name): printable(text) for name, text in pairs}
