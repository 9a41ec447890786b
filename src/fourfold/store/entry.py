"""One entry of a store: a file whose first section describes it."""

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
    """The row of an entry in the database."""

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
        """Return an entry from a row of the table. Raises one of MALFORMED if it is damaged."""
        key, kind, title, parts, *others = row
        labelled = json.loads(parts)
        if not isinstance(labelled, dict) or key_of(labelled) != key or kind not in KINDS:
            raise ValueError("the row does not match its key")
        return Entry(key, kind, title, labelled, *others)


COLUMNS = "key, kind, title, parts, file, size, made, used, hits, loads"
ENTRY_TYPES = (str, str, str, str, str, int, float, float, int, int)


def entry_sections(
    kind: str, title: str, parts: Mapping[str, str], data: Sequence[Section]
) -> list[Section]:
    """Return the sections of an entry's file: its description, then its content."""
    head = {"kind": kind, "title": title, "parts": dict(parts)}
    return [Section("entry", json.dumps(head, ensure_ascii=False).encode()), *data]


def read_head(file: Container, number: int = 0) -> tuple[str, str, Parts]:
    """Return kind, title and parts of an entry's file."""
    try:
        head = json.loads(bytes(file.section(number, "entry")))
        kind, title, parts = head["kind"], head["title"], head["parts"]
        if kind not in KINDS or not all(isinstance(one, str) for one in (title, *parts.values())):
            raise ValueError("a field has the wrong type")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why, fix = f"its header is invalid: {error!r}", "remove it"
        raise ModelError(f"{file.title} is damaged", why, fix) from error
    return kind, title, parts


def read_compiled(file: Container) -> CompiledModel:
    return read_compiled_model(file, range(1, len(file.names)))


def read_binary(file: Container) -> bytes:
    return bytes(file.section(1, "binary"))


def read_converted(file: Container) -> bytes:
    return bytes(file.section(1, "model"))
