"""Texts of a model as they may be shown: a terminal must not take any of them for a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

MOST_CHARACTERS = 2**16
MOST_PROPERTIES = 256
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines


def escaped(text: str) -> str:
    """The text with control characters as escapes."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def printable(text: str) -> str:
    """The same, and no longer than anybody would read."""
    return escaped(text[:MOST_CHARACTERS])


def short_properties(given: Mapping[str, str]) -> dict[str, str]:
    """The first of what a file says by name, each as it may be shown."""
    pairs = islice(given.items(), MOST_PROPERTIES)
    return {printable(name): printable(text) for name, text in pairs}
