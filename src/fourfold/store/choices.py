"""Tuned choices in the database: by device and by what is computed, each with a seal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from zlib import crc32


def seal(device: str, key: str, choice: str) -> int:
    return crc32(f"{device}\0{key}\0{choice}".encode())


def read(database: sqlite3.Connection, device: str | None) -> list[tuple[str, str, float, str]]:
    """Key, choice, seconds and device of every row that is whole."""
    query = "SELECT device, key, choice, seconds, seal FROM choices"
    rows = (
        database.execute(query)
        if device is None
        else database.execute(f"{query} WHERE device=?", (device,))
    )
    return [
        (key, choice, seconds, owner)
        for owner, key, choice, seconds, mark in rows
        if seal(owner, key, choice) == mark
    ]


def write(
    database: sqlite3.Connection,
    device: str,
    rows: Iterable[tuple[str, str, float]],
    now: float,
) -> None:
    database.executemany(
        "INSERT OR REPLACE INTO choices(device, key, choice, seconds, made, seal)"
        " VALUES(?,?,?,?,?,?)",
        [(device, key, text, took, now, seal(device, key, text)) for key, text, took in rows],
    )
