"""Format: what a folder of this package says of the files that it reads."""

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
    """For formats whose models are one file."""
    return () if source.path is None else (source.path,)


@dataclass(frozen=True)
class Format:
    """A file format: how its models are told from others, and which module reads them.

    `matches` looks at the first bytes, or at the path where those do not say it. `reader` names a
    module with `read(source, options) -> Model` and `operators()`: the operators that it converts,
    each with what it becomes. It is imported when a model of the format is read, and so no format
    costs those who read another one anything. `cpu_engine` names the runtime that runs what stays
    on the CPU; None leaves that to the definitions of the ops in NumPy. `files` are the paths of
    all files that a model is made of: where one of them changes, the model has. `writer` names a
    module with `write(model: WritableModel) -> bytes` and `operators()`, the ops that it writes,
    where the format can be written. A format with a `converter` has no reader: its models become
    those of another format before they are read, and all else but `files` is then that format's.
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
        """InputError where several files were passed for a model that is one."""
        if source.others and self.files is one_file:
            what = f"{source.title} was passed with {len(source.others)} more"
            raise InputError(what, f"{self.name} models are one file", "pass that file alone")

    def read(self, source: ModelSource, options: ReadOptions) -> Model:
        if self.reader is None:
            why = f"{self.name} models are converted, and what comes out is read"
            raise InputError(f"{source.title} cannot be read", why, "pass it to fourfold.Session")
        model: Model = import_module(self.reader).read(source, options)
        return replace(model, format=self.name, cpu_engine=self.cpu_engine)

    def write(self, model: WritableModel) -> bytes:
        """A file of this format, or an UnsupportedError that names what it cannot say."""
        if self.writer is None:
            why = "models of this format are only read here"
            fix = "write a .tflite or an .onnx file"
            raise InputError(f"cannot write a model as {self.name}", why, fix)
        written: bytes = import_module(self.writer).write(model)
        return written

    def operators(self) -> Mapping[str, str]:
        """The format's own operators, each with what it becomes in a few words; none where its
        models are converted.
        """
        if self.reader is None:
            return {}
        found: Mapping[str, str] = import_module(self.reader).operators()
        return found

    def written_ops(self) -> Mapping[str, str]:
        """The ops that can be written, each with what it becomes; none where nothing is written."""
        if self.writer is None:
            return {}
        found: Mapping[str, str] = import_module(self.writer).operators()
        return found

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.extensions)})"
