"""Tuned choices in the database: by device and by what is computed, each with a checksum."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32


class Choice(NamedTuple):
    """What was found best for a key: its seconds, the device, and how many were looked at."""

    key: str
    choice: str
    seconds: float
    device: str
    effort: int = 0


def choice_checksum(one: Choice) -> int:
    return crc32(f"{one.device}\0{one.key}\0{one.choice}".encode())


def read_choices(database: sqlite3.Connection, device: str | None) -> list[Choice]:
    """Every row that is whole."""
    query = "SELECT key, choice, seconds, device, effort, checksum FROM choices"
    rows = (
        database.execute(query)
        if device is None
        else database.execute(f"{query} WHERE device=?", (device,))
    )
    found = [(Choice(*row), checksum) for *row, checksum in rows]
    return [one for one, checksum in found if choice_checksum(one) == checksum]


def write_choices(database: sqlite3.Connection, rows: Iterable[Choice], now: float) -> None:
    database.executemany(
        "INSERT OR REPLACE INTO choices(device, key, choice, seconds, made, checksum, effort)"
        " VALUES(?,?,?,?,?,?,?)",
        [
            (one.device, one.key, one.choice, one.seconds, now, choice_checksum(one), one.effort)
            for one in rows
        ],
    )
