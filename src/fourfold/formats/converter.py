"""Converter: converts models of one format to another with the framework that wrote them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from fourfold.errors import InputError
from fourfold.formats.source import ModelSource
from fourfold.packages import find_note, installed_version


@dataclass(frozen=True)
class Package:
    """A package by its import name, with the distributions that may provide it."""

    name: str
    distributions: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """Return a file that changes with the version; None if the package is not installed."""
        return find_note(self.name, *self.distributions)

    @property
    def version(self) -> str | None:
        return installed_version(self.name, *self.distributions)


def no_suffix(source: ModelSource) -> str:
    """Return no suffix, for converters that accept any file name."""
    return ""


@dataclass(frozen=True)
class Converter:
    """A converter, described without importing it.

    `scripts` name modules that only a child process imports: the first has `convert(path)`, which
    returns bytes; the others are our modules that it imports. `needs` are the required packages.
    `also` are optional packages whose version affects the result. `extra` is the fourfold extra
    that installs all of them, and `target` is the name of the resulting format. `suffix` is the
    file name suffix that the converter requires.
    """

    name: str
    scripts: tuple[str, ...]
    target: str
    extra: str
    needs: tuple[Package, ...]
    also: tuple[Package, ...] = ()
    suffix: Callable[[ModelSource], str] = no_suffix

    @property
    def missing(self) -> str:
        """Return the first required package that is not installed; '' if all are."""
        return next((one.name for one in self.needs if one.version is None), "")

    @property
    def version(self) -> str:
        """Return the installed packages with their versions."""
        versions = ((one.name, one.version) for one in (*self.needs, *self.also))
        return ", ".join(
            f"{name} {version}".strip() for name, version in versions if version is not None
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Return files that change when another version is installed."""
        paths = (one.note for one in (*self.needs, *self.also))
        return tuple(note for note in paths if note)

    @property
    def source(self) -> str:
        """Return the text of the scripts; a converted model is stale when it changes."""
        specs = (find_spec(name) for name in self.scripts)
        return "\n".join(spec.loader.get_source(spec.name) for spec in specs)  # type: ignore[union-attr]

    def check_installed(self, title: str) -> None:
        """Raise InputError with the install command if a package is missing."""
        if self.missing:
            raise InputError(
                f"{title} must be converted to {self.target} with {self.name} first",
                f"the package '{self.missing}' is not installed",
                f"install it with: pip install 'fourfold[{self.extra}]'",
            )
