"""Digests of files, remembered by path and by what is seen of a file without reading it."""

from __future__ import annotations

import mmap
import os
import sqlite3

from fourfold.store.keys import digest

Name = str | os.PathLike[str]  # of a file
RACY_NS = 2_000_000_000  # a file may change again within one tick of its clock without a trace


def known(database: sqlite3.Connection, path: Name, state: str) -> str | None:
    """The digest that was found in this state, unless it had just been written then."""
    query = "SELECT seen, digest FROM digests WHERE path=? AND state=?"
    row = database.execute(query, (os.path.abspath(path), state)).fetchone()
    if row is None:
        return None
    written = int(state.split(":")[1])
    return str(row[1]) if written + RACY_NS < row[0] else None


def digest_file(path: Name) -> str:
    """The digest of what a file holds."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return digest(b"")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return digest(content)


def remember(database: sqlite3.Connection, path: Name, row: tuple[str, int, str]) -> None:
    database.execute(
        "INSERT OR REPLACE INTO digests VALUES(?,?,?,?)", (os.path.abspath(path), *row)
    )
    # Paths that are no longer opened go with time.
    database.execute(
        "DELETE FROM digests WHERE path NOT IN"
        " (SELECT path FROM digests ORDER BY seen DESC LIMIT 1000)"
    )
