"""Digests of models, remembered by path, size, time and inode of every file of one."""

from __future__ import annotations

import mmap
import os
import sqlite3
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fourfold.errors import FourfoldError
from fourfold.lazy import lazy_import
from fourfold.store.keys import digest

if TYPE_CHECKING:
    from fourfold import formats
else:
    formats = lazy_import("fourfold.formats")

Name = str | os.PathLike[str]  # of a file
RACY_NS = 2_000_000_000  # a file may change again within one tick of its clock without a trace


def files_of(path: Name) -> tuple[str, ...]:
    """All files of a model, which is read for it; of what is no model, the file itself."""
    try:
        return tuple(map(os.path.abspath, formats.model_files(path)))
    except FourfoldError:
        return (os.path.abspath(path),)


def state_of(files: Sequence[str]) -> str:
    """What shows whether a file has changed: a line for each, with its path at the end."""
    return "\n".join(f"{_state(os.stat(path))}:{path}" for path in files)


def _state(state: os.stat_result) -> str:
    return f"{state.st_size}:{state.st_mtime_ns}:{state.st_dev}:{state.st_ino}"


class KnownModel(NamedTuple):
    """What was found out of a model whose files are as they were then: `digest` is '' where one of
    them had just been written.
    """

    files: tuple[str, ...]
    digest: str


def known(database: sqlite3.Connection, path: Name) -> KnownModel | None:
    """What is remembered of a model; None where that no longer holds."""
    query = "SELECT state, seen, digest FROM models WHERE path=?"
    row = database.execute(query, (os.path.abspath(path),)).fetchone()
    if row is None:
        return None
    state, seen, found = row
    files = tuple(line.split(":", 4)[-1] for line in state.split("\n"))
    try:
        if state_of(files) != state:
            return None
    except OSError:
        return None
    written = max(int(line.split(":")[1]) for line in state.split("\n"))
    return KnownModel(files, str(found) if written + RACY_NS < seen else "")


def digest_files(files: Sequence[str]) -> tuple[str, int, str]:
    """The state of a model's files, when that was seen, and the digest of all of them."""
    state, seen = state_of(files), time.time_ns()
    found = [_digest(file) for file in files]
    return state, seen, found[0] if len(found) == 1 else digest("\n".join(found).encode())


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return digest(b"")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return digest(content)


def remember(database: sqlite3.Connection, path: Name, row: tuple[str, int, str]) -> None:
    database.execute("INSERT OR REPLACE INTO models VALUES(?,?,?,?)", (os.path.abspath(path), *row))
    # Paths that are no longer opened go with time.
    database.execute(
        "DELETE FROM models WHERE path NOT IN"
        " (SELECT path FROM models ORDER BY seen DESC LIMIT 1000)"
    )
