"""Sentinels for loading binaries: some drivers crash the process on an invalid binary.

A row records that a process is loading a binary. If the row remains after the process ended, the
binary crashed it and is not used again.
"""

from __future__ import annotations

import os
import platform
import sqlite3

from fourfold.store.schema import typed

KILLED = "killed"
REASONS = {KILLED: "its load killed a process"}
STUCK_AFTER_SECONDS = 600.0  # a load that takes longer counts as crashed


def this_process() -> str:
    return f"{platform.node()}:{os.getpid()}:{_started(os.getpid())}"


def _started(process: int) -> str:
    """Return the start time of a process if the system has it, because process numbers are
    reused.
    """
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_alive(owner: str) -> bool:
    host, _, process = owner.rpartition(":")[0].rpartition(":")
    if host != platform.node() or os.name == "nt":
        return True  # unknown for another host; on Windows the signal would end the process
    started = owner.rpartition(":")[2]
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):
        return True
    return _started(int(process)) == started


def begin(database: sqlite3.Connection, digest: str, now: float) -> None:
    row = (digest, this_process(), now)
    database.execute("INSERT OR REPLACE INTO loading VALUES(?,?,?)", row)


def end(database: sqlite3.Connection, digest: str) -> None:
    row = (digest, this_process())
    database.execute("DELETE FROM loading WHERE digest=? AND process=?", row)
    database.execute("INSERT OR IGNORE INTO loaded VALUES(?)", (digest,))


def was_loaded(database: sqlite3.Connection, digest: str) -> bool:
    row = database.execute("SELECT 1 FROM loaded WHERE digest=?", (digest,)).fetchone()
    return row is not None


def verdict(database: sqlite3.Connection, digest: str, now: float) -> str | None:
    """Return why the binary may not be loaded, or None. KILLED is new and has to be stored."""
    row = database.execute("SELECT why FROM quarantine WHERE digest=?", (digest,)).fetchone()
    if row is not None:
        return str(row[0])
    rows = database.execute("SELECT process, since FROM loading WHERE digest=?", (digest,))
    for owner, since in typed(rows, str, float):
        if not _is_alive(owner) or abs(now - since) > STUCK_AFTER_SECONDS:
            return KILLED
    return None


def quarantine_binary(database: sqlite3.Connection, digest: str, why: str, now: float) -> None:
    database.execute("INSERT OR REPLACE INTO quarantine VALUES(?,?,?)", (digest, why, now))
    for table in ("loading", "loaded"):
        database.execute(f"DELETE FROM {table} WHERE digest=?", (digest,))
