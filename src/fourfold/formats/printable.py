"""Escapes and shortens texts of a model, so that a terminal cannot interpret them as commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

MAX_CHARACTERS = 2**16
MAX_PROPERTIES = 256
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and line ends


def escaped(text: str) -> str:
    """Return the text with control characters escaped."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def printable(text: str) -> str:
    """Return the text with control characters escaped, cut to a readable length."""
    return escaped(text[:MAX_CHARACTERS])


def short_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the first properties of a file, escaped and shortened."""
    pairs = islice(properties.items(), MAX_PROPERTIES)
    return {printable(name): printable(text) for name, text in pairs}
