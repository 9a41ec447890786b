"""Digests of models, remembered by path, size, time and inode of every file of one."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fourfold.store.digests import RACY_NS, Name, digest_file
from fourfold.store.keys import digest
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold import formats
else:
    formats = lazy_import("fourfold.formats")


def files_of(path: Name) -> tuple[str, ...]:
    """All files of a model. What is no model is an error, told by its first bytes: nobody waits for
    a large file to be read that cannot be opened anyway.
    """
    return tuple(map(os.path.abspath, formats.model_files(path)))


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


def known_model(database: sqlite3.Connection, path: Name) -> KnownModel | None:
    """What is remembered of a model; None where that no longer holds."""
    query = "SELECT state, seen, digest FROM digests WHERE path=?"
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
    found = [digest_file(file) for file in files]
    return state, seen, found[0] if len(found) == 1 else digest("\n".join(found).encode())
