"""Tuned choices in the database: by device and by what is computed, each with a seal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32


class Choice(NamedTuple):
    """What was found best for a key: its seconds, the device, and how many ways were looked at."""

    key: str
    choice: str
    seconds: float
    device: str
    effort: int = 0


def seal_of(one: Choice) -> int:
    return crc32(f"{one.device}\0{one.key}\0{one.choice}".encode())


def read_choices(database: sqlite3.Connection, device: str | None) -> list[Choice]:
    """Every row that is whole."""
    query = "SELECT key, choice, seconds, device, effort, seal FROM choices"
    rows = (
        database.execute(query)
        if device is None
        else database.execute(f"{query} WHERE device=?", (device,))
    )
    found = [(Choice(*row), mark) for *row, mark in rows]
    return [one for one, mark in found if seal_of(one) == mark]


def write_choices(database: sqlite3.Connection, rows: Iterable[Choice], now: float) -> None:
    database.executemany(
        "INSERT OR REPLACE INTO choices(device, key, choice, seconds, made, seal, effort)"
        " VALUES(?,?,?,?,?,?,?)",
        [
            (one.device, one.key, one.choice, one.seconds, now, seal_of(one), one.effort)
            for one in rows
        ],
    )
