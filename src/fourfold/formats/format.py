"""Format: describes a file format and the modules that read and write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module

from fourfold.errors import InputError
from fourfold.formats.converter import Converter
from fourfold.formats.model import Model
from fourfold.formats.options import ReadOptions
from fourfold.formats.source import ModelSource
from fourfold.formats.writable import WritableModel


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
        """Return the ops that can be written, each with a short description; empty without a
        writer.
        """
        if self.writer is None:
            return {}
        described: Mapping[str, str] = import_module(self.writer).operators()
        return described

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.extensions)})"
