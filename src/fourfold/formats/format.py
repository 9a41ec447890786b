"""Format: describes a file format and the modules that read and write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec

from fourfold.errors import InputError
from fourfold.formats.inputs import ReadOptions
from fourfold.formats.model import Model
from fourfold.formats.source import ModelSource
from fourfold.formats.writable import WritableModel
from fourfold.support.packages import find_metadata_file, installed_version


@dataclass(frozen=True)
class Package:
    """A package by its import name, with the distributions that may provide it."""

    name: str
    distributions: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """Return a file that changes with the version; None if the package is not installed."""
        return find_metadata_file(self.name, *self.distributions)

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


def one_file(source: ModelSource) -> tuple[str, ...]:
    """Return the path of a model that is a single file."""
    return () if source.path is None else (source.path,)


@dataclass(frozen=True)
class Format:
    """A file format: how its models are recognized, and which modules read and write them.

    `matches` checks the first bytes, or the path if these are ambiguous. `reader` names a module
    with `read(source, options) -> Model` and `operators()`, the operators that it converts, each
    with a short description. It is imported when the first model of the format is read.
    `cpu_engine` names the runtime for operators that stay on the CPU; None selects the NumPy
    definitions of the ops. `files` returns the paths of all files of a model: when one changes, the
    model has changed. `writer` names a module with `write(model: WritableModel) -> bytes` and
    `operators()`, the ops that it writes, if the format can be written. A format with a `converter`
    has no reader: its models are converted to another format first, whose other fields then apply.
    """

    name: str
    extensions: tuple[str, ...]
    matches: Callable[[ModelSource], bool]
    reader: str | None = None
    cpu_engine: str | None = None
    files: Callable[[ModelSource], tuple[str, ...]] = one_file
    writer: str | None = None
    converter: Converter | None = None

    def check_others(self, source: ModelSource) -> None:
        """Raise InputError if several files were passed for a single-file format."""
        if source.others and self.files is one_file:
            what = f"{source.title} was passed with {len(source.others)} more"
            raise InputError(what, f"{self.name} models are one file", "pass that file alone")

    def read(self, source: ModelSource, options: ReadOptions) -> Model:
        if self.reader is None:
            why = f"{self.name} models must be converted before they are read"
            raise InputError(f"{source.title} cannot be read", why, "pass it to fourfold.Session")
        model: Model = import_module(self.reader).read(source, options)
        return replace(model, format=self.name, cpu_engine=self.cpu_engine)

    def write(self, model: WritableModel) -> bytes:
        """Return a file of this format.

        Raises UnsupportedError for ops that the format cannot express.
        """
        if self.writer is None:
            why = "fourfold can read this format, but not write it"
            fix = "write a .tflite or an .onnx file"
            raise InputError(f"cannot write a model as {self.name}", why, fix)
        written: bytes = import_module(self.writer).write(model)
        return written

    def operators(self) -> Mapping[str, str]:
        """Return the operators that the format's reader converts, each with a short description.

        Empty if models of the format are converted to another one.
        """
        if self.reader is None:
            return {}
        described: Mapping[str, str] = import_module(self.reader).operators()
        return described

    def written_ops(self) -> Mapping[str, str]:
        """Return the ops that can be written, with short descriptions; {} without a writer."""
        if self.writer is None:
            return {}
        described: Mapping[str, str] = import_module(self.writer).operators()
        return described

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.extensions)})"
