"""Entries of a store: found by key, verified before use, dropped when damaged or over the limit."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from fourfold.errors import MALFORMED, ModelError
from fourfold.plan import Container, Section, container_bytes, write_container
from fourfold.store import choices, facts, sentinel
from fourfold.store.database import (
    Damaged,
    Database,
    MemoryDatabase,
    OtherFormat,
    salvage_choices,
    salvage_facts,
    salvage_quarantine,
)
from fourfold.store.entry import COLUMNS, ENTRY_TYPES, Entry, entry_sections, read_head
from fourfold.store.folder import create_folder, open_private, unusable
from fourfold.store.keys import Parts, key_of
from fourfold.store.schema import typed
from fourfold.support.log import Log

log = Log("store")

DEFAULT_LIMIT_BYTES = 2 << 30
ORPHAN_AGE_SECONDS = 3600.0  # older files that no entry names are removed
TABLES = ("entries", "choices", "facts", "digests", "loading", "loaded", "quarantine")
MAX_SURPRISES = 2
QUICK_MS = 50  # timeout for updates that only affect speed
# Raised by a damaged database that SQLite takes for a whole one.
SURPRISES = (*MALFORMED, ArithmeticError, MemoryError)
_surprises: dict[str, int] = {}  # by folder, since the database was opened or set aside
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class FolderContents:
    """Files in one folder, private to the user. A file is written once and never changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "entries"

    def write(self, name: str, sections: Sequence[Section]) -> int:
        create_folder(self.folder.parent)
        create_folder(self.folder)
        return write_container(self.folder / name, sections, 0o600, sync=False)

    def read(self, name: str) -> Container:
        if not _is_entry_name(name):
            raise FileNotFoundError(name)
        return Container.open(self.folder / name, open_private)

    def remove(self, name: str) -> None:
        if _is_entry_name(name):
            (self.folder / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return [entry.name for entry in os.scandir(self.folder) if _is_entry_name(entry.name)]

    def sweep(self, known: set[str]) -> None:
        """Remove files that killed writers left behind."""
        if not self.folder.is_dir():
            return
        for entry in list(os.scandir(self.folder)):
            state = entry.stat(follow_symlinks=False)
            is_old = time.time() - state.st_mtime > ORPHAN_AGE_SECONDS
            if entry.name not in known and is_old and not stat.S_ISDIR(state.st_mode):
                Path(entry.path).unlink(missing_ok=True)


class MemoryContents:
    """Contents of entries in memory."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def write(self, name: str, sections: Sequence[Section]) -> int:
        self._contents[name] = container_bytes(sections)
        return len(self._contents[name])

    def read(self, name: str) -> Container:
        if name not in self._contents:
            raise FileNotFoundError(name)
        return Container(self._contents[name], "an entry in memory")

    def remove(self, name: str) -> None:
        self._contents.pop(name, None)

    def names(self) -> list[str]:
        return list(self._contents)

    def sweep(self, known: set[str]) -> None:
        for name in set(self._contents) - known:
            del self._contents[name]


Contents = FolderContents | MemoryContents


def never_fails(otherwise: Callable[[], Any]) -> Callable[[F], F]:
    """Decorate a method so that errors of the folder or the database never reach the caller: it
    returns `otherwise()` instead.
    """

    def wrap(method: F) -> F:
        @functools.wraps(method)
        def guarded(self: Entries, *arguments: Any, **named: Any) -> Any:
            try:
                return method(self, *arguments, **named)
            except FileNotFoundError:
                return otherwise()  # the store is empty, or its folder was removed
            except Damaged as error:
                self.renew(error)
            except (OSError, sqlite3.Error) as error:
                log.warn_once(unusable(self.place, error), about=self.place)
            except UnicodeEncodeError as error:
                log.debug("a name that is not Unicode is not cached: %s", error)
            except SURPRISES as error:
                self.note_surprise(error)
            return otherwise()

        return cast(F, guarded)

    return wrap


class Entries:
    """All entries of a store in one folder, or in memory, without tuned choices and facts."""

    def __init__(self, folder: Path | None, limit: int = DEFAULT_LIMIT_BYTES) -> None:
        self.folder, self.limit = folder, limit
        self.place = "memory" if folder is None else str(folder)
        self.database = MemoryDatabase() if folder is None else Database(folder)
        self.contents: Contents = MemoryContents() if folder is None else FolderContents(folder)

    def __reduce__(self) -> tuple[type, tuple[Path | None, int]]:
        """Pickle the path: another process opens the same folder. Contents in memory are
        not sent.
        """
        return type(self), (self.folder, self.limit)

    def find(
        self, kind: str, parts: Parts, read: Callable[[Container], R], counted: bool = True
    ) -> R | None:
        """Return the entry for these parts; None if there is none. Its use is recorded if
        `counted`.
        """
        key = key_of(parts)
        name = self._name(key)
        log.debug("%s %s: %s", kind, key, "not cached" if name is None else f"cached as {name}")
        if name is None:
            return None
        try:
            file = self.contents.read(name)
            if read_head(file)[::2] != (kind, parts):
                raise ModelError(
                    f"{file.title} is not the cached entry", "its file was exchanged", "remove it"
                )
            content = read(file)
        except (ModelError, OSError) as error:
            reason = f"{error.what}: {error.why}" if isinstance(error, ModelError) else str(error)
            log.warn_once(f"a cached {kind} is created again: {reason}")
            self.forget(key)
            return None
        if counted:
            self._note_use(key)
        return content

    def has(self, parts: Parts) -> bool:
        """Return whether there is an entry for these parts, valid or not."""
        return self._name(key_of(parts)) is not None

    @never_fails(lambda: None)
    def _name(self, key: str) -> str | None:
        with self.database.reading() as database:
            row = database.execute("SELECT file FROM entries WHERE key=?", (key,)).fetchone()
        return None if row is None else str(row[0])

    @never_fails(lambda: None)
    def _note_use(self, key: str) -> None:
        # If another process is writing, this use is not counted.
        with suppress(sqlite3.OperationalError), self.database.writing(False, QUICK_MS) as database:
            database.execute(
                "UPDATE entries SET hits=hits+1, used=? WHERE key=?", (_now(database), key)
            )

    @never_fails(lambda: None)
    def put(self, kind: str, title: str, parts: Parts, data: Sequence[Section]) -> None:
        """Store an entry, replacing one with the same key."""
        key, title = key_of(parts), title.encode("utf-8", "replace").decode()
        name = f"{kind}-{key}-{os.urandom(4).hex()}"
        size = self.contents.write(name, entry_sections(kind, title, parts, data))
        try:
            with self.database.writing() as database:
                old = self._insert(database, (key, kind, title, parts, name, size))
                old += self._over_limit(database, self.limit)
        except (OSError, sqlite3.Error, Damaged):
            self.contents.remove(name)
            raise
        for one in old:
            self.contents.remove(one)
        log.debug("%s %s of %s is now cached, %d bytes", kind, key, title, size)

    def _insert(self, database: sqlite3.Connection, row: tuple[Any, ...]) -> list[str]:
        key, kind, title, parts, name, size = row
        old = database.execute("SELECT file FROM entries WHERE key=?", (key,)).fetchall()
        text = json.dumps(parts, ensure_ascii=False)
        now = _now(database)
        database.execute(
            f"INSERT OR REPLACE INTO entries({COLUMNS}) VALUES(?,?,?,?,?,?,?,?,0,0)",
            (key, kind, title, text, name, size, now, now),
        )
        return [one for (one,) in old]

    def _over_limit(self, database: sqlite3.Connection, limit: int) -> list[str]:
        """Drop the least recently used entries until the others fit; return their files."""
        query = "SELECT key, file, size FROM entries ORDER BY used"
        rows = typed(database.execute(query), str, str, int)
        total, gone = sum(size for *_, size in rows), []
        for key, file, size in rows:
            if total <= limit:
                break
            database.execute("DELETE FROM entries WHERE key=?", (key,))
            gone.append(file)
            total -= size
        return gone

    @never_fails(lambda: None)
    def forget(self, key: str) -> None:
        with self.database.writing() as database:
            rows = database.execute("SELECT file FROM entries WHERE key=?", (key,)).fetchall()
            database.execute("DELETE FROM entries WHERE key=?", (key,))
        for (file,) in rows:
            self.contents.remove(str(file))

    @never_fails(list)
    def entries(self) -> list[Entry]:
        """Return all entries, the last used first."""
        entries = []
        with self.database.reading() as database:
            rows = database.execute(f"SELECT {COLUMNS} FROM entries ORDER BY used DESC")
            for row in typed(rows, *ENTRY_TYPES):
                try:
                    entries.append(Entry.of(row))
                except MALFORMED as error:
                    log.warn_once(f"an entry of the store in {self.place} is unreadable: {error}")
        return entries

    @never_fails(lambda: 0)
    def prune(self, limit: int) -> int:
        """Drop the least recently used entries until the others fit, and sweep; return their
        number.
        """
        with self.database.writing() as database:
            gone = self._over_limit(database, limit)
            kept = {str(one) for (one,) in database.execute("SELECT file FROM entries")}
        for one in gone:
            self.contents.remove(one)
        self.contents.sweep(kept)
        return len(gone)

    @never_fails(lambda: None)
    def clear(self) -> None:
        """Remove everything, including tuned choices, probed facts and the quarantine."""
        with self.database.writing() as database:
            for table in TABLES:
                database.execute(f"DELETE FROM {table}")
        for name in self.contents.names():
            self.contents.remove(name)

    def verify(self) -> list[tuple[Entry, str]]:
        """Drop every damaged entry; return them with the reasons."""
        bad = []
        for entry in self.entries():
            try:
                file = self.contents.read(entry.file)
                file.verify()
                if read_head(file)[::2] != (entry.kind, entry.parts):
                    bad.append((entry, "its file was exchanged"))
            except (ModelError, OSError) as error:
                bad.append((entry, error.why if isinstance(error, ModelError) else str(error)))
        for entry, _ in bad:
            self.forget(entry.key)
        return bad

    def note_surprise(self, error: Exception) -> None:
        """Set the database aside after a second error that no undamaged database causes."""
        _surprises[self.place] = _surprises.get(self.place, 0) + 1
        log.debug("the database in %s is damaged: %r", self.place, error)
        if _surprises[self.place] >= MAX_SURPRISES:
            self.renew(Damaged(self.database.current_inode(), repr(error)))

    def renew(self, damaged: Damaged) -> None:
        """Replace a damaged database by a new one with every entry whose file is valid."""
        try:
            if not self.database.move_damaged_file(damaged):
                return
        except OSError as error:
            log.warn_once(unusable(self.place, error), about=self.place)
            return
        _surprises.pop(self.place, None)
        if isinstance(damaged, OtherFormat):
            log.info(
                "the store in %s was of another version of fourfold; it is converted", self.place
            )
        else:
            log.warn_once(
                f"the store in {self.place} was damaged ({damaged}) and was created again"
            )
        try:
            self._recover()
        except (OSError, sqlite3.Error, Damaged, *SURPRISES) as error:
            log.warn_once(f"nothing was recovered from the damaged store in {self.place}: {error}")

    def _recover(self) -> None:
        folder = self.database.folder
        salvaged, known_facts = salvage_choices(folder), salvage_facts(folder)
        quarantined = salvage_quarantine(folder)
        with self.database.writing() as database:
            for name in self.contents.names():
                try:
                    file = self.contents.read(name)
                    kind, title, parts = read_head(file)
                except (ModelError, OSError) as error:
                    log.debug("%s of the damaged store was not recovered: %s", name, error)
                else:
                    self._insert(database, (key_of(parts), kind, title, parts, name, file.size))
            valid = [one for one, sum_ in salvaged if choices.choice_checksum(one) == sum_]
            choices.write_choices(database, valid, time.time())
            facts.write_rows(database, known_facts)
            for row in quarantined:
                sentinel.quarantine_binary(database, *row)


def _now(database: sqlite3.Connection) -> float:
    """Return the time, but never before the last use: a clock that was set back must not make new
    entries old.
    """
    query = "SELECT MAX(used) FROM entries WHERE typeof(used)='real'"
    rows = typed(database.execute(query), float)
    return max([time.time(), *(float(last) + 1e-6 for (last,) in rows)])


def _is_entry_name(name: str) -> bool:
    """Return whether a file may belong to an entry: a name such as 'binary-KEY-NUMBER'."""
    return name.isascii() and name.replace("-", "").isalnum()
