"""Converts models of formats that fourfold cannot read directly.

A child process converts them with their own framework, and the store caches the result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fourfold.compiler.convert.process import run_converter
from fourfold.config import BY_EXTENSION, Config
from fourfold.errors import FourfoldError, ModelError
from fourfold.formats import Format, ModelSource, find_format, identify
from fourfold.formats.format import Converter
from fourfold.formats.trust import check_trust
from fourfold.store.entry import CONVERTED
from fourfold.store.keys import conversion_parts, digest
from fourfold.store.models import digest_files
from fourfold.store.store import Store, configured_store
from fourfold.support.log import Log

log = Log("compiler.convert")


class ReadableModel(NamedTuple):
    """A model that readers accept: the caller's, or its converted form.

    `origin` describes the conversion; '' if there was none.
    """

    content: str | bytes
    origin: str = ""


def make_readable(
    model: str | bytes, store: Store | None, limit: float, trust: str = BY_EXTENSION
) -> ReadableModel:
    """Return a model that readers accept.

    A model of a converted format comes from the store, or is converted now by a child process with
    a time limit of `limit` seconds, if `trust` allows it.
    """
    source, form = identify(model)
    check_trust(source, form, trust)
    if form.converter is None:
        return ReadableModel(model)
    form.check_others(source)
    conversion = ModelConversion(source, form, form.converter, form.files(source))
    return (store and conversion.find(store)) or conversion.run(store, limit)


def make_readable_with_config(config: Config, model: str | bytes) -> ReadableModel:
    """Convert a model with the store and the time limit of the configuration."""
    return make_readable(model, configured_store(config), config.conversion_limit, config.trust)


@dataclass(frozen=True)
class ModelConversion:
    """A model that must be converted, and its converter."""

    source: ModelSource
    form: Format
    converter: Converter
    files: tuple[str, ...]

    @cached_property
    def _digest(self) -> str:
        """Return the digest of all files of the model."""
        if self.source.path is None:
            return digest(self.source.content)
        return digest_files(self.files)[2]

    def find(self, store: Store) -> ReadableModel | None:
        """Return the cached conversion of this model; None if there is none.

        If the converter is not installed, a result of any converter version is accepted.
        """
        parts = self._parts(self.converter.version)
        if self.converter.missing:
            cached = (one.parts for one in store.entries() if one.kind == CONVERTED)
            parts = next((one for one in cached if one["model"] == self._digest), parts)
        content = store.find_converted(parts)
        if content is None:
            return None
        origin = self._origin(parts["converter"])
        log.info("%s: using the cached model, %s", self.source.title, origin)
        return ReadableModel(content, origin)

    def run(self, store: Store | None, limit: float) -> ReadableModel:
        """Convert the model and cache the result."""
        self.converter.check_installed(self.source.title)
        version = self.converter.version
        duration = "this may take up to a minute" + (", once" if store is not None else "")
        log.info("%s is being %s; %s", self.source.title, self._origin(version), duration)
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
        return f"converted from {self.form.name} to {self.converter.target} with {version}"

    def _check(self, content: bytes) -> None:
        """Raise ModelError if the result is not a model of the target format."""
        try:
            actual = find_format(content).name
        except FourfoldError:
            actual = "no readable model"
        if actual != self.converter.target:
            why = f"its result is {actual}, expected {self.converter.target}"
            fix = f"convert the model yourself, and pass the {self.converter.target} file"
            raise ModelError(f"{self.converter.name} did not convert {self.source.title}", why, fix)
