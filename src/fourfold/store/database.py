"""The store's SQLite file: opened for each piece of work, made anew where it is damaged.

A rollback journal, not a write-ahead log: it works in read-only and network folders, and a process
may die or fork at any moment. What is written for speed only (uses, sentinels) is not synced.
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
_at_work = ForkBlockingLock()  # SQLite has locks that all connections of a process share
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
    """The database cannot be read any more; `inode` says which file that was."""

    def __init__(self, inode: int, why: str) -> None:
        super().__init__(why)
        self.inode = inode


class Database:
    """A database file in a folder; each `open` is a connection and a transaction of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / NAME

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Works without the right to write; FileNotFoundError where nothing is kept yet."""
        with _at_work, self._connection(BUSY_MS) as connection:
            yield connection

    @contextmanager
    def writing(self, sync: bool = True, wait_ms: int = BUSY_MS) -> Iterator[sqlite3.Connection]:
        """One transaction, made when it ends without an error."""
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
        # Not 'ro': a journal that a killed process left must be played back.
        uri = f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=wait_ms / 1000)
        try:
            if (version := _version(connection)) != VERSION:
                if version == 0 and self._is_empty():
                    raise FileNotFoundError(f"{self.path} is being made")
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
        """Whether there is nothing yet: no file, or one that nobody has written to."""
        try:
            return os.stat(self.path).st_size == 0
        except FileNotFoundError:
            return True

    def _create(self) -> None:
        """Make the tables in one transaction, so that nobody sees half of them. SQLite lets one
        process do it, and does away with a journal that lies beside an empty file.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=BUSY_MS / 1000)
        try:
            connection.execute("PRAGMA synchronous=OFF")  # there is nothing in it to lose
            connection.execute("BEGIN IMMEDIATE")
            if _version(connection) == 0:
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
            connection.execute("COMMIT")
        finally:
            connection.close()

    def put_aside(self, damaged: Damaged) -> bool:
        """Move the damaged file away, once; whether this call did it."""
        try:
            if os.stat(self.path).st_ino != damaged.inode:
                return False
            os.replace(self.path, self.folder / f"{NAME}.damaged")
        except OSError:
            return False
        return True


class MemoryDatabase(Database):
    """The same in this process's memory."""

    def __init__(self) -> None:
        super().__init__(Path())
        self._open()
        follow(self, MemoryDatabase._begin_anew)

    def _open(self) -> None:
        self._connection_kept = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        self._connection_kept.executescript(SCHEMA)

    def _begin_anew(self) -> None:
        """A child has an empty one, since SQLite's connections do not cross forks."""
        skip_finalizer(self._connection_kept)
        self._open()

    @contextmanager
    def _connection(self, wait_ms: int) -> Iterator[sqlite3.Connection]:
        try:
            yield self._connection_kept
        finally:
            if self._connection_kept.in_transaction:
                self._connection_kept.execute("ROLLBACK")

    def _create(self) -> None:
        """It is there from the start."""


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def salvage_choices(folder: Path) -> list[tuple[Choice, int]]:
    """The tuned choices that can still be read from the damaged or older file, with their
    checksums.
    """
    found: list[tuple[Choice, int]] = []
    with suppress(TypeError, ValueError):
        for row in _salvaged_rows(folder, "choices"):
            device, key, choice, seconds, _, checksum, *effort = row
            found.append((Choice(key, choice, seconds, device, *effort), checksum))
    return found


def salvage_facts(folder: Path) -> list[FactRow]:
    """The same for probed facts."""
    found: list[FactRow] = []
    with suppress(TypeError, ValueError):
        found.extend(FactRow(*row) for row in _salvaged_rows(folder, "facts"))
    return [row for row in found if fact_checksum(*row[:3]) == row.checksum]


def _salvaged_rows(folder: Path, table: str) -> Iterator[tuple[Any, ...]]:
    """The rows that come before the damage."""
    uri = f"{(folder / f'{NAME}.damaged').absolute().as_uri()}?mode=ro"
    with suppress(sqlite3.Error):
        connection = sqlite3.connect(uri, uri=True)
        try:
            yield from connection.execute(f"SELECT * FROM {table}")
        finally:
            connection.close()
