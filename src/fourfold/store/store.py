"""Store: plans, binaries and tuned choices kept between runs. It may cost time, never a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path

from fourfold.config import Config
from fourfold.device import DeviceInfo, Fact
from fourfold.plan import CompiledModel, Section, compiled_sections
from fourfold.store import choices, digests, facts, models, sentinel
from fourfold.store.choices import Choice
from fourfold.store.entries import LIMIT, QUICK_MS, Entries, never_fails
from fourfold.store.entry import (
    BINARY,
    COMPILED,
    CONVERTED,
    read_binary,
    read_compiled,
    read_converted,
)
from fourfold.store.facts import FactRow, KeptFacts
from fourfold.store.keys import Parts, digest, engine_parts, facts_key
from fourfold.store.package import ROOT
from fourfold.store.sources import digest_sources, sources_state
from fourfold.support.log import Log

log = Log("store")


class Store(Entries):
    """What is kept in one folder, or in memory. Safe for any number of threads and processes."""

    def find_model(self, parts: Parts, counted: bool = True) -> CompiledModel | None:
        """Return the model that was compiled for exactly these parts; `counted` notes the use."""
        return self.find(COMPILED, parts, read_compiled, counted)

    def put_model(self, title: str, parts: Parts, model: CompiledModel) -> None:
        self.put(COMPILED, title, parts, compiled_sections(model))

    def find_binary(self, parts: Parts) -> bytes | None:
        return self.find(BINARY, parts, read_binary)

    def put_binary(self, title: str, parts: Parts, binary: bytes) -> None:
        self.put(BINARY, title, parts, [Section("binary", binary)])

    def find_converted(self, parts: Parts) -> bytes | None:
        """What a converter made of exactly this model."""
        return self.find(CONVERTED, parts, read_converted)

    def put_converted(self, title: str, parts: Parts, content: bytes) -> None:
        self.put(CONVERTED, title, parts, [Section("model", content)])

    def choices(self, device: str) -> dict[str, str]:
        """The tuned choices for a device, by what is computed."""
        return {one.key: one.choice for one in self.choice_rows(device)}

    def efforts(self, device: str) -> dict[str, int]:
        """How many candidates were looked at before each choice was made."""
        return {one.key: one.effort for one in self.choice_rows(device)}

    @never_fails(list)
    def choice_rows(self, device: str | None = None) -> list[Choice]:
        with self.database.reading() as database:
            return choices.read_choices(database, device)

    def put_choice(
        self, device: str, key: str, choice: str, seconds: float, effort: int = 0
    ) -> None:
        """Keep a tuned choice: what is computed, the choice, the seconds it takes, and how many
        candidates were looked at.
        """
        self.put_choices([Choice(key, choice, seconds, device, effort)])

    @never_fails(lambda: None)
    def put_choices(self, rows: Iterable[Choice]) -> None:
        with self.database.writing() as database:
            choices.write_choices(database, rows, time.time())

    @never_fails(lambda: KeptFacts({}, {}))
    def find_facts(self, device: DeviceInfo) -> KeptFacts:
        """What trials told of a device, and which did not answer."""
        key = facts_key(device, self.engine_parts)
        with self.database.reading() as database:
            return facts.facts_in(facts.read_rows(database, key))

    @never_fails(lambda: None)
    def put_facts(
        self, device: DeviceInfo, known: Mapping[str, Fact], unanswered: Iterable[str] = ()
    ) -> None:
        """Keep what trials told of a device, and count those that did not answer."""
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
        """Which fourfold this is, told by the contents of its sources; their digest is remembered
        while they stay as they are.
        """
        known = self._known_digest(ROOT, sources_state())
        if known is None:
            row = digest_sources()
            self._note_digest(ROOT, row)
            known = row[2]
        return engine_parts(known)

    def model_digest(self, path: digests.Name) -> str:
        """The digest of a model, remembered while all of its files stay as they are."""
        known = self._known_model(path)
        if known is not None and known.digest:
            return known.digest
        return self._fresh_digest(path, models.files_of(path) if known is None else known.files)

    def knows_model(self, path: digests.Name) -> bool:
        """Whether this very model was opened before, told without reading it."""
        known = self._known_model(path)
        return known is not None and bool(known.digest)

    @never_fails(lambda: None)
    def _known_model(self, path: digests.Name) -> models.KnownModel | None:
        with self.database.reading() as database:
            return models.known_model(database, path)

    def _fresh_digest(self, path: digests.Name, files: tuple[str, ...]) -> str:
        row = models.digest_files(files)
        self._note_digest(path, row)
        return row[2]

    @never_fails(lambda: None)
    def _known_digest(self, path: digests.Name, state: str) -> str | None:
        with self.database.reading() as database:
            return digests.known(database, path, state)

    @never_fails(lambda: None)
    def _note_digest(self, path: digests.Name, row: tuple[str, int, str]) -> None:
        with self.database.writing(sync=False) as database:
            digests.remember(database, path, row)

    @contextmanager
    def loading(self, binary: bytes) -> Iterator[bool]:
        """Around the load of a binary: whether it may be loaded; not if it killed a process."""
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
        """Whether this very binary was loaded before, which makes a sentinel needless."""
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
                sentinel.condemn(database, name, "its load killed a process", now)
        if why is not None:
            log.warn_once(f"a kept binary is not used, because {sentinel.REASONS.get(why, why)}")
        return why is None

    @never_fails(lambda: None)
    def _end(self, name: str) -> None:
        with self.database.writing(False) as database:
            sentinel.end(database, name)

    @never_fails(lambda: None)
    def condemn(self, binary: bytes, why: str) -> None:
        """Never load this binary again."""
        with self.database.writing() as database:
            sentinel.condemn(database, digest(binary), why, time.time())

    @never_fails(list)
    def quarantined(self) -> list[tuple[str, str, float]]:
        """Digest, reason and time of each binary that may not be loaded."""
        with self.database.reading() as database:
            return list(database.execute("SELECT digest, why, since FROM quarantine"))


@cache
def memory_store() -> Store:
    """The one store of this process that leaves no trace."""
    return Store(None)


def folder_store(folder: digests.Name, limit: int = LIMIT) -> Store:
    return Store(Path(folder), limit)


def configured_store(config: Config) -> Store | None:
    """The store of the settings; None where nothing is to be kept."""
    return None if config.cache is None else folder_store(config.cache, config.cache_limit)
