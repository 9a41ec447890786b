"""Digests of files and models, cached by path, size, time and inode."""

from __future__ import annotations

import mmap
import os
import sqlite3
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fourfold.store.keys import digest
from fourfold.store.schema import typed
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold import formats
else:
    formats = lazy_import("fourfold.formats")

Name = str | os.PathLike[str]  # path of a file
RACY_NS = 2_000_000_000  # a file may change within the resolution of its time stamp, unnoticed


def cached_digest(database: sqlite3.Connection, path: Name, state: str) -> str | None:
    """Return the digest of a file in this state, unless the file had just been written then."""
    query = "SELECT seen, digest FROM digests WHERE path=? AND state=?"
    written = int(state.split(":")[1])
    for seen, known in typed(database.execute(query, (os.path.abspath(path), state)), int, str):
        return known if written + RACY_NS < seen else None
    return None


def digest_file(path: Name) -> str:
    """Return the digest of a file's content."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return digest(b"")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return digest(content)


def store_digest(database: sqlite3.Connection, path: Name, row: tuple[str, int, str]) -> None:
    database.execute(
        "INSERT OR REPLACE INTO digests VALUES(?,?,?,?)", (os.path.abspath(path), *row)
    )
    # Forget paths that were not opened for the longest time.
    database.execute(
        "DELETE FROM digests WHERE path NOT IN"
        " (SELECT path FROM digests ORDER BY seen DESC LIMIT 1000)"
    )


def files_of(path: Name) -> tuple[str, ...]:
    """Return all files of a model. Raises an error for other files after reading the first bytes,
    before a large file is digested.
    """
    return tuple(map(os.path.abspath, formats.model_files(path)))


def state_of(files: Sequence[str]) -> str:
    """Return the state of files, which changes when a file changes: one line per file, ending with
    its path.
    """
    return "\n".join(f"{_state(os.stat(path))}:{path}" for path in files)


def _state(state: os.stat_result) -> str:
    return f"{state.st_size}:{state.st_mtime_ns}:{state.st_dev}:{state.st_ino}"


class KnownModel(NamedTuple):
    """Cached data of a model whose files have not changed: `digest` is '' if one of them had just
    been written.
    """

    files: tuple[str, ...]
    digest: str


def known_model(database: sqlite3.Connection, path: Name) -> KnownModel | None:
    """Return the cached data of a model; None if it is out of date."""
    query = "SELECT state, seen, digest FROM digests WHERE path=?"
    rows = typed(database.execute(query, (os.path.abspath(path),)), str, int, str)
    if not rows:
        return None
    state, seen, content_digest = rows[0]
    files = tuple(line.split(":", 4)[-1] for line in state.split("\n"))
    try:
        if state_of(files) != state:
            return None
    except OSError:
        return None
    written = max(int(line.split(":")[1]) for line in state.split("\n"))
    return KnownModel(files, content_digest if written + RACY_NS < seen else "")


def digest_files(files: Sequence[str]) -> tuple[str, int, str]:
    """Return the state of a model's files, its time, and the digest of all of them."""
    state, seen = state_of(files), time.time_ns()
    contents = [digest_file(file) for file in files]
    return state, seen, contents[0] if len(contents) == 1 else digest("\n".join(contents).encode())
