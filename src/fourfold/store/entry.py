"""One kept thing: a file whose first section says what it is good for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fourfold.errors import ModelError
from fourfold.plan import CompiledModel, Container, Section, read_compiled_model
from fourfold.store.keys import Parts, key_of

COMPILED, BINARY, CONVERTED = "compiled", "binary", "converted"
KINDS = (COMPILED, BINARY, CONVERTED)


@dataclass(frozen=True)
class Entry:
    """What the database says of an entry."""

    key: str
    kind: str
    title: str
    parts: Parts
    file: str
    size: int
    made: float
    used: float
    hits: int
    loads: int

    @staticmethod
    def of(row: Sequence[Any]) -> Entry:
        """From a row of the table; ValueError where it was damaged."""
        key, kind, title, parts, *rest = row
        found = json.loads(parts)
        if not isinstance(found, dict) or key_of(found) != key or kind not in KINDS:
            raise ValueError("the row does not fit its key")
        return Entry(str(key), str(kind), str(title), found, *rest)


COLUMNS = "key, kind, title, parts, file, size, made, used, hits, loads"


def entry_sections(
    kind: str, title: str, parts: Mapping[str, str], data: Sequence[Section]
) -> list[Section]:
    """The sections of an entry's file: what it is good for, then what it holds."""
    head = {"kind": kind, "title": title, "parts": dict(parts)}
    return [Section("entry", json.dumps(head, ensure_ascii=False).encode()), *data]


def read_head(file: Container, number: int = 0) -> tuple[str, str, Parts]:
    """Kind, title and parts of an entry's file."""
    try:
        head = json.loads(bytes(file.section(number, "entry")))
        kind, title, parts = head["kind"], head["title"], head["parts"]
        if kind not in KINDS or not all(isinstance(one, str) for one in (title, *parts.values())):
            raise ValueError("a field has the wrong type")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why, fix = f"its head does not fit: {error!r}", "remove it"
        raise ModelError(f"{file.title} is damaged", why, fix) from error
    return kind, title, parts


def read_compiled(file: Container) -> CompiledModel:
    return read_compiled_model(file, range(1, len(file.names)))


def read_binary(file: Container) -> bytes:
    return bytes(file.section(1, "binary"))


def read_converted(file: Container) -> bytes:
    return bytes(file.section(1, "model"))
