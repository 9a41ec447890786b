"""The store's SQLite file, opened for each operation and replaced if it is damaged.

It uses a rollback journal, not a write-ahead log, which works in read-only and network folders. A
process may die or fork at any moment. Data that only affects speed (uses, sentinels) is written
without a sync.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fourfold.errors import MALFORMED
from fourfold.store.choices import Choice
from fourfold.store.facts import COLUMNS, FACT_TYPES, FactRow, fact_checksum
from fourfold.store.folder import NO_FOLLOW, check_cache_folder, create_folder, is_private_file
from fourfold.store.schema import SCHEMA, TABLES, VERSION, typed
from fourfold.support.forks import ForkBlockingLock, follow, skip_finalizer

NAME = "store.sqlite"
BUSY_MS = 4000
MAX_STEPS = 5_000_000  # of SQLite's virtual machine per statement: damaged pages may form a cycle
# Inode, size and time of the databases whose side files and tables were checked last.
_checked: dict[str, tuple[int, int, int]] = {}
_at_work = ForkBlockingLock()  # all connections of a process share SQLite's locks
# Messages about the folder or other processes. All others are about damage.
TRANSIENT = ("locked", "readonly", "disk is full", "disk I/O error", "unable to open")
LOG_SUFFIXES = ("-wal", "-shm")  # of SQLite's other journal mode, which the store does not use


class Damaged(Exception):
    """The database cannot be read; `inode` identifies the file."""

    def __init__(self, inode: int, why: str) -> None:
        super().__init__(why)
        self.inode = inode


class OtherFormat(Damaged):
    """Another version of fourfold wrote the database."""


class Database:
    """A database file in a folder. Each use is a separate connection and transaction."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / NAME
        self._name = os.fspath(self.path)

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
        state = self._check_file()
        inode, stamp = state.st_ino, (state.st_ino, state.st_size, state.st_mtime_ns)
        is_new = _checked.get(self._name) != stamp
        if is_new:
            self._check_side_files(inode)
        # Not 'ro': SQLite must be able to roll back the journal of a killed process.
        uri = f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=wait_ms / 1000)
        connection.set_progress_handler(lambda: 1, MAX_STEPS)
        try:
            if (version := _version(connection)) != VERSION:
                if version == 0 and self._is_empty():
                    raise FileNotFoundError(f"{self.path} is being created")
                raise OtherFormat(inode, "it has another format")
            if is_new and _statements(connection) != TABLES:
                raise Damaged(inode, "it has other tables")
            _checked[self._name] = stamp
            yield connection
        except sqlite3.DatabaseError as error:
            if self._is_transient(error):
                raise
            raise Damaged(inode, str(error)) from error
        finally:
            connection.close()

    def _check_file(self) -> os.stat_result:
        """Return the state of the database file. Raises Damaged if SQLite may not open it."""
        check_cache_folder(self.folder)
        state = os.lstat(self._name)
        if not is_private_file(state):
            raise Damaged(state.st_ino, "it is not a file of this user")
        return state

    def _check_side_files(self, inode: int) -> None:
        if any(self._unwanted_files()):
            raise Damaged(inode, "its journal is not a file of the store")

    def _unwanted_files(self) -> Iterator[str]:
        """Yield the suffixes of files that SQLite would use with the database, but must not."""
        for suffix in ("-journal", *LOG_SUFFIXES):
            try:
                state = os.lstat(f"{self._name}{suffix}")
            except FileNotFoundError:
                continue
            if not is_private_file(state) or suffix in LOG_SUFFIXES:
                yield suffix

    def _is_transient(self, error: sqlite3.DatabaseError) -> bool:
        """Return whether an error is due to the folder or to other processes, not to damage."""
        text = str(error)
        if not isinstance(error, sqlite3.OperationalError):
            return False
        if "readonly" in text:  # if it is writable, its header has another version
            return not all(os.access(path, os.W_OK) for path in (self.path, self.folder))
        return any(part in text for part in TRANSIENT)

    def _is_empty(self) -> bool:
        """Return whether the file is missing or empty."""
        try:
            state = os.lstat(self.path)
        except FileNotFoundError:
            return True
        return state.st_size == 0 and stat.S_ISREG(state.st_mode)

    def _create(self) -> None:
        """Create the tables in one transaction, so that no other process sees a part of them.
        SQLite lets one process do it, and removes a journal next to an empty file.
        """
        create_folder(self.folder)
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | NO_FOLLOW, 0o600))
        self._check_side_files(self._check_file().st_ino)
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

    def current_inode(self) -> int:
        """Return the inode of the database file; 0 if there is none."""
        with suppress(OSError, ValueError):
            return os.lstat(self.path).st_ino
        return 0

    def move_damaged_file(self, damaged: Damaged) -> bool:
        """Move the damaged file away. Returns False if another process did it."""
        if self.current_inode() != damaged.inode or not damaged.inode:
            return False
        for suffix in self._unwanted_files():
            os.replace(f"{self._name}{suffix}", f"{self._name}.damaged.{suffix[1:]}")
        os.replace(self._name, f"{self._name}.damaged")
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

    def _is_empty(self) -> bool:
        return False

    def current_inode(self) -> int:
        return 0

    def move_damaged_file(self, damaged: Damaged) -> bool:
        return False


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the statements that created the tables, and anything else that is in the file."""
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    return tuple(sql for (sql,) in connection.execute(query))


def salvage_choices(folder: Path) -> list[tuple[Choice, int]]:
    """Return the tuned choices that can be read from the damaged or older file, with checksums."""
    query = "SELECT device, key, choice, seconds, checksum, effort FROM choices"
    return [
        (Choice(key, choice, seconds, device, effort), checksum)
        for device, key, choice, seconds, checksum, effort in typed(
            _salvaged_rows(folder, query), str, str, str, float, int, int
        )
    ]


def salvage_facts(folder: Path) -> list[FactRow]:
    """Return the probed facts that can be read from the damaged or older file."""
    rows = typed(_salvaged_rows(folder, f"SELECT {COLUMNS} FROM facts"), *FACT_TYPES)
    return [FactRow(*row) for row in rows if fact_checksum(*row[:3]) == row[4]]


def salvage_quarantine(folder: Path) -> list[tuple[str, str, float]]:
    """Return the binaries in quarantine that can be read from the damaged or older file."""
    query = "SELECT digest, why, since FROM quarantine"
    return typed(_salvaged_rows(folder, query), str, str, float)


def _salvaged_rows(folder: Path, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows before the damage, unless another user may have written them."""
    path = folder / f"{NAME}.damaged"
    with suppress(OSError, sqlite3.Error, MemoryError, *MALFORMED):
        if not is_private_file(os.lstat(path)):
            return
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        connection.set_progress_handler(lambda: 1, MAX_STEPS)
        try:
            yield from connection.execute(query)
        finally:
            connection.close()
