"""Tuned choices in the database, by device and computation, each with a checksum."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from fourfold.store.schema import typed


class Choice(NamedTuple):
    """The best choice for a key, its time, the device, and the number of candidates compared."""

    key: str
    choice: str
    seconds: float
    device: str
    effort: int = 0


def choice_checksum(one: Choice) -> int:
    return crc32(f"{one.device}\0{one.key}\0{one.choice}".encode())


def read_choices(database: sqlite3.Connection, device: str | None) -> list[Choice]:
    """Return all rows with a valid checksum, of one device or of all."""
    query = "SELECT key, choice, seconds, device, effort, checksum FROM choices"
    rows = (
        database.execute(query)
        if device is None
        else database.execute(f"{query} WHERE device=?", (device,))
    )
    whole = typed(rows, str, str, float, str, int, int)
    choices = [(Choice(*row), checksum) for *row, checksum in whole]
    return [one for one, checksum in choices if choice_checksum(one) == checksum]


def write_choices(database: sqlite3.Connection, rows: Iterable[Choice], now: float) -> None:
    database.executemany(
        "INSERT OR REPLACE INTO choices(device, key, choice, seconds, made, checksum, effort)"
        " VALUES(?,?,?,?,?,?,?)",
        [
            (one.device, one.key, one.choice, one.seconds, now, choice_checksum(one), one.effort)
            for one in rows
        ],
    )
