"""Converter: how models of a format become models of another one, by the tools of who made them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from fourfold.errors import InputError
from fourfold.formats.source import ModelSource
from fourfold.packages import find_note, installed_version


@dataclass(frozen=True)
class Package:
    """A package as it is imported, and the names under which it is installed."""

    name: str
    distributions: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """A file that changes with the version; None where the package is not installed."""
        return find_note(self.name, *self.distributions)

    @property
    def version(self) -> str | None:
        return installed_version(self.name, *self.distributions)


def no_suffix(source: ModelSource) -> str:
    """For converters that do not go by the names of files."""
    return ""


@dataclass(frozen=True)
class Converter:
    """Who converts, told without importing it.

    `scripts` name modules that only a child process imports: the first has `convert(path)`, which
    gives bytes, and the others are what that imports of ours. `needs` are the packages without
    which it cannot; the result depends on the version of `also`, too, where one of them is there.
    `extra` is that of fourfold which installs all of them, and `target` the format that comes out,
    as people know it. `suffix` is what the name of a file must end with for the converter.
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
        """The first package that is not installed; '' where all are."""
        return next((one.name for one in self.needs if one.version is None), "")

    @property
    def version(self) -> str:
        """The packages with their versions, those that are there."""
        found = ((one.name, one.version) for one in (*self.needs, *self.also))
        return ", ".join(
            f"{name} {version}".strip() for name, version in found if version is not None
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Files that change when another version is installed."""
        found = (one.note for one in (*self.needs, *self.also))
        return tuple(note for note in found if note)

    @property
    def source(self) -> str:
        """The text of the scripts: where it is another, so may be what they make."""
        specs = (find_spec(name) for name in self.scripts)
        return "\n".join(spec.loader.get_source(spec.name) for spec in specs)  # type: ignore[union-attr]

    def check_installed(self, title: str) -> None:
        """InputError with the command that installs what is missing."""
        if self.missing:
            raise InputError(
                f"{title} has to be converted to {self.target} first, which {self.name} does",
                f"the package '{self.missing}' is not installed",
                f"install it with: pip install 'fourfold[{self.extra}]'",
            )
