"""Models of formats that are not read here become such that are: a child process converts them with
the framework that they come from, and the store keeps what comes out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fourfold.config import Config
from fourfold.convert.process import run_converter
from fourfold.errors import FourfoldError, ModelError
from fourfold.formats import Format, ModelSource, find_format, identify
from fourfold.formats.converter import Converter
from fourfold.log import Log
from fourfold.store.entry import CONVERTED
from fourfold.store.keys import conversion_parts, digest
from fourfold.store.models import digest_files
from fourfold.store.store import Store, configured_store

log = Log("convert")


class ReadableModel(NamedTuple):
    """A model as readers take it: what was passed, or what a converter made of it; then `origin`
    says in words who did.
    """

    content: str | bytes
    origin: str = ""


def make_readable(model: str | bytes, store: Store | None, limit: float) -> ReadableModel:
    """The model itself where its format is read; else what it becomes, from the store, or made now
    by a child that has `limit` seconds for it.
    """
    source, form = identify(model)
    if form.converter is None:
        return ReadableModel(model)
    form.check_others(source)
    conversion = ModelConversion(source, form, form.converter, form.files(source))
    return (store and conversion.find(store)) or conversion.run(store, limit)


def make_readable_by(config: Config, model: str | bytes) -> ReadableModel:
    """The same with the store and the time that the settings say."""
    return make_readable(model, configured_store(config), config.conversion_limit)


@dataclass(frozen=True)
class ModelConversion:
    """A model that has to be converted, and who does so."""

    source: ModelSource
    form: Format
    converter: Converter
    files: tuple[str, ...]

    @cached_property
    def _digest(self) -> str:
        """That of all files of the model."""
        if self.source.path is None:
            return digest(self.source.content)
        return digest_files(self.files)[2]

    def find(self, store: Store) -> ReadableModel | None:
        """What was kept of this very model; where nothing is installed that could make it anew,
        whoever made it.
        """
        parts = self._parts(self.converter.version)
        if self.converter.missing:
            kept = (one.parts for one in store.entries() if one.kind == CONVERTED)
            parts = next((one for one in kept if one["model"] == self._digest), parts)
        content = store.find_converted(parts)
        if content is None:
            return None
        origin = self._origin(parts["converter"])
        log.info("%s was %s before, and what came out is used", self.source.title, origin)
        return ReadableModel(content, origin)

    def run(self, store: Store | None, limit: float) -> ReadableModel:
        """Converts it now and keeps what comes out."""
        self.converter.check_installed(self.source.title)
        version = self.converter.version
        pace = "which takes seconds to a minute" + (", once" if store is not None else "")
        log.info("%s is being %s, %s", self.source.title, self._origin(version), pace)
        began = time.perf_counter()
        content = run_converter(self.converter, self.source, limit)
        self._check(content)
        log.info("converted in %.1f s", time.perf_counter() - began)
        if store is not None:
            store.put_converted(self.source.name, self._parts(version), content)
        return ReadableModel(content, self._origin(version))

    def _parts(self, version: str) -> dict[str, str]:
        return conversion_parts(self._digest, version, digest(self.converter.source.encode()))

    def _origin(self, version: str) -> str:
        return f"converted from {self.form.name} to {self.converter.target} by {version}"

    def _check(self, content: bytes) -> None:
        """Whether what came out is what was promised."""
        try:
            made = find_format(content).name
        except FourfoldError:
            made = "nothing that can be read"
        if made != self.converter.target:
            why = f"it made {made} where {self.converter.target} was expected"
            fix = f"convert the model yourself, and pass the {self.converter.target} file"
            raise ModelError(f"{self.converter.name} did not convert {self.source.title}", why, fix)
