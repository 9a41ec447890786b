"""Entries of a store: found by key, checked before use, forgotten when damaged or too many."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from fourfold.errors import ModelError
from fourfold.plan import Container, Section
from fourfold.store import choices, facts
from fourfold.store.contents import Contents, FolderContents, MemoryContents
from fourfold.store.database import (
    Damaged,
    Database,
    MemoryDatabase,
    salvage_choices,
    salvage_facts,
)
from fourfold.store.entry import COLUMNS, Entry, entry_sections, read_head
from fourfold.store.keys import Parts, key_of
from fourfold.support.log import Log

log = Log("store")

LIMIT = 2 << 30
TABLES = ("entries", "choices", "facts", "digests", "loading", "loaded", "quarantine")
QUICK_MS = 50  # how long a note of a use may wait for its turn
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def never_fails(otherwise: Callable[[], Any]) -> Callable[[F], F]:
    """Whatever the folder or the database does, the caller goes on without the store."""

    def wrap(method: F) -> F:
        @functools.wraps(method)
        def guarded(self: Entries, *arguments: Any, **named: Any) -> Any:
            try:
                return method(self, *arguments, **named)
            except FileNotFoundError:
                return otherwise()  # nothing is kept yet, or the folder was removed
            except Damaged as error:
                self.renew(error)
            except (OSError, sqlite3.Error) as error:
                line = f"the store in {self.place} cannot be used: {error}; going on without it"
                log.warn_once(line, about=self.place)
            return otherwise()

        return cast(F, guarded)

    return wrap


class Entries:
    """Everything that is kept in one folder, or in memory, but tuned choices."""

    def __init__(self, folder: Path | None, limit: int = LIMIT) -> None:
        self.folder, self.limit = folder, limit
        self.place = "memory" if folder is None else str(folder)
        self.database = MemoryDatabase() if folder is None else Database(folder)
        self.contents: Contents = MemoryContents() if folder is None else FolderContents(folder)

    def __reduce__(self) -> tuple[type, tuple[Path | None, int]]:
        """Another process opens the same folder; what is in memory is not sent."""
        return type(self), (self.folder, self.limit)

    def find(
        self, kind: str, parts: Parts, read: Callable[[Container], R], counted: bool = True
    ) -> R | None:
        """What is kept for these parts; that it was used is noted if `counted`."""
        key = key_of(parts)
        name = self._name(key)
        log.debug("%s %s: %s", kind, key, "not kept" if name is None else f"kept as {name}")
        if name is None:
            return None
        try:
            file = self.contents.read(name)
            if read_head(file)[::2] != (kind, parts):
                raise ModelError(
                    f"{file.title} is not what was kept", "it was swapped", "remove it"
                )
            found = read(file)
        except (ModelError, OSError) as error:
            reason = f"{error.what}: {error.why}" if isinstance(error, ModelError) else str(error)
            log.warn_once(f"a kept {kind} is made anew: {reason}")
            self.forget(key)
            return None
        if counted:
            self._note_use(key)
        return found

    def has(self, parts: Parts) -> bool:
        """Whether something is kept for these parts, good or not."""
        return self._name(key_of(parts)) is not None

    @never_fails(lambda: None)
    def _name(self, key: str) -> str | None:
        with self.database.reading() as database:
            row = database.execute("SELECT file FROM entries WHERE key=?", (key,)).fetchone()
        return None if row is None else str(row[0])

    @never_fails(lambda: None)
    def _note_use(self, key: str) -> None:
        # Where others write just now, one use less is counted.
        with suppress(sqlite3.OperationalError), self.database.writing(False, QUICK_MS) as database:
            database.execute(
                "UPDATE entries SET hits=hits+1, used=? WHERE key=?", (_now(database), key)
            )

    @never_fails(lambda: None)
    def put(self, kind: str, title: str, parts: Parts, data: Sequence[Section]) -> None:
        """Keep something; another entry of the same key gives way."""
        key = key_of(parts)
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
        log.debug("%s %s of %s is now kept, %d bytes", kind, key, title, size)

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
        """Forget what was not used for the longest time until the rest fits; gives their files."""
        total = database.execute("SELECT COALESCE(SUM(size), 0) FROM entries").fetchone()[0]
        gone = []
        rows = database.execute("SELECT key, file, size FROM entries ORDER BY used").fetchall()
        for key, file, size in rows:
            if total <= limit:
                break
            database.execute("DELETE FROM entries WHERE key=?", (key,))
            gone.append(str(file))
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
        """Everything that is kept but choices, the last used first."""
        found = []
        with self.database.reading() as database:
            for row in database.execute(f"SELECT {COLUMNS} FROM entries ORDER BY used DESC"):
                try:
                    found.append(Entry.of(row))
                except (ValueError, TypeError) as error:
                    log.warn_once(f"an entry of the store in {self.place} is unreadable: {error}")
        return found

    @never_fails(lambda: 0)
    def prune(self, limit: int) -> int:
        """Forget the least recently used until the rest fits, and sweep; gives how many went."""
        with self.database.writing() as database:
            gone = self._over_limit(database, limit)
            kept = {str(one) for (one,) in database.execute("SELECT file FROM entries")}
        for one in gone:
            self.contents.remove(one)
        self.contents.sweep(kept)
        return len(gone)

    @never_fails(lambda: None)
    def clear(self) -> None:
        """Forget everything, tuned choices, probed facts and quarantine too."""
        with self.database.writing() as database:
            for table in TABLES:
                database.execute(f"DELETE FROM {table}")
        for name in self.contents.names():
            self.contents.remove(name)

    def verify(self) -> list[tuple[Entry, str]]:
        """Forget every entry that does not hold what it should; gives them with the reasons."""
        bad = []
        for entry in self.entries():
            try:
                file = self.contents.read(entry.file)
                file.verify()
                if read_head(file)[::2] != (entry.kind, entry.parts):
                    bad.append((entry, "it was swapped"))
            except (ModelError, OSError) as error:
                bad.append((entry, error.why if isinstance(error, ModelError) else str(error)))
        for entry, _ in bad:
            self.forget(entry.key)
        return bad

    def renew(self, damaged: Damaged) -> None:
        """A new database in place of a damaged one, with every entry whose file is still good."""
        if not self.database.put_aside(damaged):
            return
        log.warn_once(f"the store in {self.place} was damaged ({damaged}); it was made anew")
        try:
            self._adopt()
        except (OSError, sqlite3.Error, Damaged) as error:
            log.warn_once(f"nothing of the damaged store in {self.place} is kept: {error}")

    def _adopt(self) -> None:
        folder = self.database.folder
        salvaged, known = salvage_choices(folder), salvage_facts(folder)
        with self.database.writing() as database:
            for name in self.contents.names():
                try:
                    file = self.contents.read(name)
                    kind, title, parts = read_head(file)
                except (ModelError, OSError) as error:
                    log.debug("%s of the damaged store is not kept: %s", name, error)
                else:
                    self._insert(database, (key_of(parts), kind, title, parts, name, file.size))
            whole = [one for one, sum_ in salvaged if choices.choice_checksum(one) == sum_]
            choices.write_choices(database, whole, time.time())
            facts.write_rows(database, known)


def _now(database: sqlite3.Connection) -> float:
    """The time, but never before the last use: a clock set back must not make new entries old."""
    last = database.execute("SELECT COALESCE(MAX(used), 0) FROM entries").fetchone()[0]
    return max(time.time(), float(last) + 1e-6)
