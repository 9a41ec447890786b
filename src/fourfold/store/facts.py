"""Probed facts of devices in the database, each with a checksum, and counts of failed probes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

from fourfold.device import Fact, is_fact
from fourfold.store.schema import typed

COLUMNS = "device, name, value, tries, checksum"
FACT_TYPES = (str, str, (str, type(None)), int, int)


class FactRow(NamedTuple):
    """A fact of a device as JSON; None after `tries` consecutive probes without an answer."""

    device: str
    name: str
    value: str | None
    tries: int
    checksum: int


class StoredFacts(NamedTuple):
    """Known facts of a device, and for other facts the number of consecutive probes without an
    answer.
    """

    facts: dict[str, Fact]
    tries: dict[str, int]


def fact_checksum(device: str, name: str, value: str | None) -> int:
    return crc32(f"{device}\0{name}\0{value}".encode())


def read_rows(database: sqlite3.Connection, device: str | None = None) -> list[FactRow]:
    """Return all rows with a valid checksum, of one device or of all."""
    query = f"SELECT {COLUMNS} FROM facts"
    cursor = (
        database.execute(query)
        if device is None
        else database.execute(f"{query} WHERE device=?", (device,))
    )
    rows = [FactRow(*row) for row in typed(cursor, *FACT_TYPES)]
    return [row for row in rows if fact_checksum(*row[:3]) == row.checksum]


def facts_in(rows: Iterable[FactRow]) -> StoredFacts:
    facts: dict[str, Fact] = {}
    tries: dict[str, int] = {}
    for row in rows:
        if row.value is None:
            tries[row.name] = row.tries
            continue
        with suppress(ValueError, TypeError, RecursionError):
            value = json.loads(row.value)
            if is_fact(row.name, value):
                facts[row.name] = value
    return StoredFacts(facts, tries)


def write_rows(database: sqlite3.Connection, rows: Iterable[FactRow]) -> None:
    query = f"INSERT OR REPLACE INTO facts({COLUMNS}) VALUES(?,?,?,?,?)"
    database.executemany(query, list(rows))


def write_facts(database: sqlite3.Connection, device: str, facts: Mapping[str, Fact]) -> None:
    texts = {name: json.dumps(value) for name, value in facts.items()}
    rows = [
        FactRow(device, name, text, 0, fact_checksum(device, name, text))
        for name, text in texts.items()
    ]
    write_rows(database, rows)


def note_unanswered(database: sqlite3.Connection, device: str, names: Iterable[str]) -> None:
    """Count another probe without an answer; known facts stay."""
    for name in names:
        query = "SELECT value, tries FROM facts WHERE device=? AND name=?"
        rows = typed(database.execute(query, (device, name)), (str, type(None)), int)
        if not rows or rows[0][0] is None:
            tries = rows[0][1] + 1 if rows else 1
            write_rows(
                database, [FactRow(device, name, None, tries, fact_checksum(device, name, None))]
            )
