"""Store: a persistent cache of plans, binaries and tuned choices. Its errors never fail a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path

from fourfold.config import Config
from fourfold.device import DeviceInfo, Fact
from fourfold.plan import CompiledModel, Section, compiled_sections
from fourfold.store import choices, facts, models, sentinel
from fourfold.store.choices import Choice
from fourfold.store.entries import DEFAULT_LIMIT_BYTES, QUICK_MS, Entries, never_fails
from fourfold.store.entry import (
    BINARY,
    COMPILED,
    CONVERTED,
    read_binary,
    read_compiled,
    read_converted,
)
from fourfold.store.facts import FactRow, StoredFacts
from fourfold.store.keys import Parts, digest, engine_parts, facts_key
from fourfold.store.package import ROOT, digest_sources, sources_state
from fourfold.store.schema import typed
from fourfold.support.log import Log

log = Log("store")


class Store(Entries):
    """The cache in one folder, or in memory. Safe for any number of threads and processes."""

    def find_model(self, parts: Parts, counted: bool = True) -> CompiledModel | None:
        """Return the model compiled for exactly these parts; `counted` records the use."""
        return self.find(COMPILED, parts, read_compiled, counted)

    def put_model(self, title: str, parts: Parts, model: CompiledModel) -> None:
        self.put(COMPILED, title, parts, compiled_sections(model))

    def find_binary(self, parts: Parts) -> bytes | None:
        return self.find(BINARY, parts, read_binary)

    def put_binary(self, title: str, parts: Parts, binary: bytes) -> None:
        self.put(BINARY, title, parts, [Section("binary", binary)])

    def find_converted(self, parts: Parts) -> bytes | None:
        """Return the result of converting exactly this model."""
        return self.find(CONVERTED, parts, read_converted)

    def put_converted(self, title: str, parts: Parts, content: bytes) -> None:
        self.put(CONVERTED, title, parts, [Section("model", content)])

    def choices(self, device: str) -> dict[str, str]:
        """Return the tuned choices for a device, by computation."""
        return {one.key: one.choice for one in self.choice_rows(device)}

    def efforts(self, device: str) -> dict[str, int]:
        """Return the number of candidates compared for each choice."""
        return {one.key: one.effort for one in self.choice_rows(device)}

    @never_fails(list)
    def choice_rows(self, device: str | None = None) -> list[Choice]:
        with self.database.reading() as database:
            return choices.read_choices(database, device)

    def put_choice(
        self, device: str, key: str, choice: str, seconds: float, effort: int = 0
    ) -> None:
        """Store a tuned choice with its computation, its time, and the number of candidates
        compared.
        """
        self.put_choices([Choice(key, choice, seconds, device, effort)])

    @never_fails(lambda: None)
    def put_choices(self, rows: Iterable[Choice]) -> None:
        with self.database.writing() as database:
            choices.write_choices(database, rows, time.time())

    @never_fails(lambda: StoredFacts({}, {}))
    def find_facts(self, device: DeviceInfo) -> StoredFacts:
        """Return the probed facts of a device, and counts of probes without an answer."""
        key = facts_key(device, self.engine_parts)
        with self.database.reading() as database:
            return facts.facts_in(facts.read_rows(database, key))

    @never_fails(lambda: None)
    def put_facts(
        self, device: DeviceInfo, known: Mapping[str, Fact], unanswered: Iterable[str] = ()
    ) -> None:
        """Store probed facts of a device, and count probes without an answer."""
        key = facts_key(device, self.engine_parts)
        with self.database.writing(sync=False) as database:
            facts.write_facts(database, key, known)
            facts.note_unanswered(database, key, unanswered)

    @never_fails(list)
    def fact_rows(self) -> list[FactRow]:
        with self.database.reading() as database:
            return facts.read_rows(database)

    @never_fails(lambda: None)
    def put_fact_rows(self, rows: Iterable[FactRow]) -> None:
        with self.database.writing() as database:
            facts.write_rows(database, rows)

    @cached_property
    def engine_parts(self) -> Parts:
        """The version of fourfold and the digest of its sources, cached while the sources do not
        change.
        """
        source_digest = self._known_digest(ROOT, sources_state())
        if source_digest is None:
            row = digest_sources()
            self._note_digest(ROOT, row)
            source_digest = row[2]
        return engine_parts(source_digest)

    def model_digest(self, path: models.Name) -> str:
        """Return the digest of a model, cached while none of its files changes."""
        cached = self._known_model(path)
        if cached is not None and cached.digest:
            return cached.digest
        return self._fresh_digest(path, models.files_of(path) if cached is None else cached.files)

    def knows_model(self, path: models.Name) -> bool:
        """Return whether this model was opened before, without reading it."""
        cached = self._known_model(path)
        return cached is not None and bool(cached.digest)

    @never_fails(lambda: None)
    def _known_model(self, path: models.Name) -> models.KnownModel | None:
        with self.database.reading() as database:
            return models.known_model(database, path)

    def _fresh_digest(self, path: models.Name, files: tuple[str, ...]) -> str:
        row = models.digest_files(files)
        self._note_digest(path, row)
        return row[2]

    @never_fails(lambda: None)
    def _known_digest(self, path: models.Name, state: str) -> str | None:
        with self.database.reading() as database:
            return models.cached_digest(database, path, state)

    @never_fails(lambda: None)
    def _note_digest(self, path: models.Name, row: tuple[str, int, str]) -> None:
        with self.database.writing(sync=False) as database:
            models.store_digest(database, path, row)

    @contextmanager
    def loading(self, binary: bytes) -> Iterator[bool]:
        """Context of loading a binary; yields False if an earlier load crashed a process."""
        name = digest(binary)
        if self._was_loaded(name):
            yield True
            return
        allowed = self._begin(name)
        try:
            yield allowed
        finally:
            if allowed:
                self._end(name)

    @never_fails(lambda: False)
    def _was_loaded(self, name: str) -> bool:
        """Return whether this binary was loaded before, so that it needs no sentinel."""
        with self.database.reading() as database:
            return sentinel.was_loaded(database, name)

    @never_fails(lambda: True)
    def _begin(self, name: str) -> bool:
        now = time.time()
        with self.database.writing(False, QUICK_MS) as database:
            why = sentinel.verdict(database, name, now)
            if why is None:
                sentinel.begin(database, name, now)
            elif why == sentinel.KILLED:
                sentinel.quarantine_binary(database, name, "its load killed a process", now)
        if why is not None:
            log.warn_once(f"a cached binary is not used, because {sentinel.REASONS.get(why, why)}")
        return why is None

    @never_fails(lambda: None)
    def _end(self, name: str) -> None:
        with self.database.writing(False) as database:
            sentinel.end(database, name)

    @never_fails(lambda: None)
    def quarantine_binary(self, binary: bytes, why: str) -> None:
        """Put a binary into quarantine, so that it is never loaded again."""
        with self.database.writing() as database:
            sentinel.quarantine_binary(database, digest(binary), why, time.time())

    @never_fails(list)
    def quarantined(self) -> list[tuple[str, str, float]]:
        """Return digest, reason and time of each binary in quarantine."""
        with self.database.reading() as database:
            rows = database.execute("SELECT digest, why, since FROM quarantine")
            return typed(rows, str, str, float)


@cache
def memory_store() -> Store:
    """Return the one in-memory store of this process."""
    return Store(None)


def folder_store(folder: models.Name, limit: int = DEFAULT_LIMIT_BYTES) -> Store:
    return Store(Path(folder), limit)


def configured_store(config: Config) -> Store | None:
    """Return the store of the settings; None if caching is disabled."""
    return None if config.cache is None else folder_store(config.cache, config.cache_limit)
