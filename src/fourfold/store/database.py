"""The store's SQLite file, opened for each operation and replaced if it is damaged.

It uses a rollback journal, not a write-ahead log, which works in read-only and network folders. A
process may die or fork at any moment. Data that only affects speed (uses, sentinels) is written
without a sync.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fourfold.store.choices import Choice
from fourfold.store.facts import FactRow, fact_checksum
from fourfold.support.forks import ForkBlockingLock, follow, skip_finalizer

NAME = "store.sqlite"
BUSY_MS = 4000
_at_work = ForkBlockingLock()  # all connections of a process share SQLite's locks
SCHEMA = """
CREATE TABLE IF NOT EXISTS entries(
  key TEXT PRIMARY KEY, kind TEXT NOT NULL, title TEXT NOT NULL, parts TEXT NOT NULL,
  file TEXT NOT NULL, size INTEGER NOT NULL, made REAL NOT NULL, used REAL NOT NULL,
  hits INTEGER NOT NULL DEFAULT 0, loads INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS choices(
  device TEXT NOT NULL, key TEXT NOT NULL, choice TEXT NOT NULL, seconds REAL NOT NULL,
  made REAL NOT NULL, checksum INTEGER NOT NULL, effort INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(device, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS digests(
  path TEXT PRIMARY KEY, state TEXT NOT NULL, seen INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS loading(
  digest TEXT NOT NULL, process TEXT NOT NULL, since REAL NOT NULL, PRIMARY KEY(digest, process));
CREATE TABLE IF NOT EXISTS quarantine(
  digest TEXT PRIMARY KEY, why TEXT NOT NULL, since REAL NOT NULL);
CREATE TABLE IF NOT EXISTS loaded(digest TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS facts(
  device TEXT NOT NULL, name TEXT NOT NULL, value TEXT, tries INTEGER NOT NULL,
  checksum INTEGER NOT NULL, PRIMARY KEY(device, name)) WITHOUT ROWID;
PRAGMA user_version = 5;
"""
VERSION = 5


class Damaged(Exception):
    """The database cannot be read; `inode` identifies the file."""

    def __init__(self, inode: int, why: str) -> None:
        super().__init__(why)
        self.inode = inode


class Database:
    """A database file in a folder. Each use is a separate connection and transaction."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / NAME

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open for reading; needs no write permission. Raises FileNotFoundError if there is no
        database yet.
        """
        with _at_work, self._connection(BUSY_MS) as connection:
            yield connection

    @contextmanager
    def writing(self, sync: bool = True, wait_ms: int = BUSY_MS) -> Iterator[sqlite3.Connection]:
        """Open a transaction, which is committed unless an error is raised."""
        if self._is_empty():
            with _at_work:
                self._create()
        with _at_work, self._connection(wait_ms) as connection:
            connection.execute(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self, wait_ms: int) -> Iterator[sqlite3.Connection]:
        inode = os.stat(self.path).st_ino
        # Not 'ro': SQLite must be able to roll back the journal of a killed process.
        uri = f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=wait_ms / 1000)
        try:
            if (version := _version(connection)) != VERSION:
                if version == 0 and self._is_empty():
                    raise FileNotFoundError(f"{self.path} is being created")
                raise Damaged(inode, "it has another format")
            yield connection
        except sqlite3.OperationalError as error:
            if "no such table" in str(error) or "no such column" in str(error):
                raise Damaged(inode, str(error)) from error
            raise
        except sqlite3.DatabaseError as error:
            raise Damaged(inode, str(error)) from error
        finally:
            connection.close()

    def _is_empty(self) -> bool:
        """Return whether the file is missing or empty."""
        try:
            return os.stat(self.path).st_size == 0
        except FileNotFoundError:
            return True

    def _create(self) -> None:
        """Create the tables in one transaction, so that no other process sees a part of them.
        SQLite lets one process do it, and removes a journal next to an empty file.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=BUSY_MS / 1000)
        try:
            connection.execute("PRAGMA synchronous=OFF")  # the database has no data yet
            connection.execute("BEGIN IMMEDIATE")
            if _version(connection) == 0:
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
            connection.execute("COMMIT")
        finally:
            connection.close()

    def move_damaged_file(self, damaged: Damaged) -> bool:
        """Move the damaged file away. Returns False if another process did it."""
        try:
            if os.stat(self.path).st_ino != damaged.inode:
                return False
            os.replace(self.path, self.folder / f"{NAME}.damaged")
        except OSError:
            return False
        return True


class MemoryDatabase(Database):
    """A database in this process's memory."""

    def __init__(self) -> None:
        super().__init__(Path())
        self._open()
        follow(self, MemoryDatabase._reopen_after_fork)

    def _open(self) -> None:
        self._memory_connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        self._memory_connection.executescript(SCHEMA)

    def _reopen_after_fork(self) -> None:
        """Start with an empty database in a child process, because SQLite connections do not
        survive forks.
        """
        skip_finalizer(self._memory_connection)
        self._open()

    @contextmanager
    def _connection(self, wait_ms: int) -> Iterator[sqlite3.Connection]:
        try:
            yield self._memory_connection
        finally:
            if self._memory_connection.in_transaction:
                self._memory_connection.execute("ROLLBACK")

    def _create(self) -> None:
        """Do nothing: the tables exist from the start."""


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def salvage_choices(folder: Path) -> list[tuple[Choice, int]]:
    """Return the tuned choices that can be read from the damaged or older file, with checksums."""
    choices: list[tuple[Choice, int]] = []
    with suppress(TypeError, ValueError):
        for row in _salvaged_rows(folder, "choices"):
            device, key, choice, seconds, _, checksum, *effort = row
            choices.append((Choice(key, choice, seconds, device, *effort), checksum))
    return choices


def salvage_facts(folder: Path) -> list[FactRow]:
    """Return the probed facts that can be read from the damaged or older file."""
    rows: list[FactRow] = []
    with suppress(TypeError, ValueError):
        rows.extend(FactRow(*row) for row in _salvaged_rows(folder, "facts"))
    return [row for row in rows if fact_checksum(*row[:3]) == row.checksum]


def _salvaged_rows(folder: Path, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows before the damage."""
    uri = f"{(folder / f'{NAME}.damaged').absolute().as_uri()}?mode=ro"
    with suppress(sqlite3.Error):
        connection = sqlite3.connect(uri, uri=True)
        try:
            yield from connection.execute(f"SELECT * FROM {table}")
        finally:
            connection.close()
