"""Digests of files, cached by path, size and time."""

from __future__ import annotations

import mmap
import os
import sqlite3

from fourfold.store.keys import digest

Name = str | os.PathLike[str]  # path of a file
RACY_NS = 2_000_000_000  # a file may change within the resolution of its time stamp, unnoticed


def known(database: sqlite3.Connection, path: Name, state: str) -> str | None:
    """Return the digest of a file in this state, unless the file had just been written then."""
    query = "SELECT seen, digest FROM digests WHERE path=? AND state=?"
    row = database.execute(query, (os.path.abspath(path), state)).fetchone()
    if row is None:
        return None
    written = int(state.split(":")[1])
    return str(row[1]) if written + RACY_NS < row[0] else None


def digest_file(path: Name) -> str:
    """Return the digest of a file's content."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return digest(b"")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return digest(content)


def remember(database: sqlite3.Connection, path: Name, row: tuple[str, int, str]) -> None:
    database.execute(
        "INSERT OR REPLACE INTO digests VALUES(?,?,?,?)", (os.path.abspath(path), *row)
    )
    # Forget paths that were not opened for the longest time.
    database.execute(
        "DELETE FROM digests WHERE path NOT IN"
        " (SELECT path FROM digests ORDER BY seen DESC LIMIT 1000)"
    )
