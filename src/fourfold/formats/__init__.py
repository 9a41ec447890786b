"""Readers for every model format; each returns a `Model`.

A format is a subpackage, discovered by scanning this package. Its `FORMAT` says which files it
reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from fourfold.errors import FourfoldError, InputError, ModelError
from fourfold.formats.format import Format
from fourfold.formats.inputs import DEFAULTS, ReadOptions
from fourfold.formats.model import Model, SourceGraph
from fourfold.formats.source import (
    Content,
    ModelSource,
    PathOrBytes,
    has_too_many_members,
    open_source,
    zip_members,
)
from fourfold.graph.metadata import Signature
from fourfold.plan.tensor_binding import TensorId
from fourfold.types import silent_arithmetic

__all__ = [
    "Format",
    "Model",
    "ModelSource",
    "ReadOptions",
    "Signature",
    "SourceGraph",
    "TensorId",
    "find_format",
    "formats",
    "identify",
    "model_files",
    "read_model",
]
MAX_MODELS_SHOWN = 3  # max models of a folder listed in an error
AMBIGUOUS = (".json",)  # extensions that most files use for something other than a model
EXPORT = (
    "export it where its code is: torch.export.save(torch.export.export(model, (example,)), "
    "'model.pt2'), or pass the module itself to fourfold.from_torch"
)


class Look(NamedTuple):
    """A guess of what a file is, and what the user can do."""

    looks: str
    fix: str


TORCH_PICKLE = Look("a PyTorch pickle, which holds weights or code but no graph", EXPORT)
TORCH_SCRIPT = Look("a TorchScript archive, which PyTorch itself no longer exports from", EXPORT)
CUT_ZIP = Look("a zip archive that is damaged or truncated", "download, copy or save it again")
PREPARED = Look(
    "a prepared file, which holds plans but no graph", "pass the model it was prepared from"
)
_STARTS = {
    b"FOURFOLD": PREPARED,
    b"PK\x03\x04": CUT_ZIP,
    b"\x80": Look("a pickle (of PyTorch?), which may hold weights or code, but no graph", EXPORT),
    b"\x1f\x8b": Look("a gzip archive", "unpack it first"),
    b"version https://git-lfs": Look(
        "a Git LFS pointer", "fetch the real file with 'git lfs pull'"
    ),
    b"<": Look("an HTML or XML page", "the download went wrong; fetch the file itself"),
    b"{": Look("a JSON file", "pass the model file itself"),
    b"\x08": Look(
        "a protobuf file, but not an ONNX model",
        "pass a SavedModel as its folder; convert others to .onnx or .tflite first",
    ),
    b"\x0a": Look(
        "a protobuf file, but not a TensorFlow graph",
        "pass a Paddle or Caffe model by its path, under its own name; convert others to .tflite",
    ),
}


def look_at(content: Content, extensions: tuple[str, ...], names: str) -> Look:
    """Guess what a file is from its first bytes.

    `extensions` and `names` are those of all formats, for archives and for the suggested fix.
    """
    start = content[:64]
    if not start:
        return Look("empty", "download or export the file again")
    members = zip_members(content)
    if members:
        return _look_into_zip(members, extensions, names)
    if has_too_many_members(content):
        return Look("a zip archive with too many members for a model", f"pass a file of {names}")
    for magic, look in _STARTS.items():
        if start.lstrip().startswith(magic) or start.startswith(magic):
            return look
    return Look("of an unknown format, judging by its first bytes", f"pass a file of {names}")


def _look_into_zip(members: tuple[str, ...], extensions: tuple[str, ...], names: str) -> Look:
    """Guess what an archive is from its members; PyTorch archives should not be unpacked."""
    files = {name.rpartition("/")[2] for name in members}
    if "data.pkl" in files:
        return TORCH_SCRIPT if "constants.pkl" in files else TORCH_PICKLE
    models = [name for name in members if name.lower().endswith(extensions)]
    if not models:
        return Look("a zip archive without a model in it", f"pass a file of {names}")
    return Look("a zip archive with a model in it", f"unpack it, and pass {models[0]}")


@cache
def formats() -> Mapping[str, Format]:
    """Return every format by the name of its folder."""
    names = [info.name for info in iter_modules(__path__) if info.ispkg]
    return {name: import_module(f"{__name__}.{name}").FORMAT for name in names}


@silent_arithmetic()
def read_model(model: PathOrBytes, options: ReadOptions = DEFAULTS) -> Model:
    """Read a model of any format from a file, a folder or bytes."""
    source, form = identify(model)
    form.check_others(source)
    return form.read(source, options)


def identify(model: PathOrBytes) -> tuple[ModelSource, Format]:
    """Open a model and detect its format."""
    source = open_source(model)
    return source, _format_of(source)


def find_format(model: PathOrBytes) -> Format:
    """Return the format of a model."""
    return identify(model)[1]


def model_files(model: PathOrBytes) -> tuple[str, ...]:
    """Return the paths of all files that a model depends on.

    These are the model's own files and, for a converted format, files that change with the version
    of the converter.
    """
    source, form = identify(model)
    return (*form.files(source), *(() if form.converter is None else form.converter.notes))


def _format_of(source: ModelSource) -> Format:
    candidates = formats().values()
    try:
        # The extension decides when two formats match the same bytes.
        for form in sorted(candidates, key=lambda form: not source.has_extension(form.extensions)):
            if form.matches(source):
                return form
    except FourfoldError:
        raise
    except OSError as error:
        fix = "check that the folder may be read"
        raise InputError(f"cannot open {source.title}", str(error), fix) from error
    raise _unknown(source)


def _unknown(source: ModelSource) -> FourfoldError:
    names = " or ".join(str(form) for form in formats().values())
    listed = [one for form in formats().values() for one in form.extensions]
    extensions = tuple(one for one in listed if one not in AMBIGUOUS)
    if source.is_folder:
        return _no_model_in(source, extensions, names)
    look = look_at(source.content, extensions, names)
    what = f"{source.title} is not a model that can be read"
    return ModelError(what, f"it is {look.looks}", look.fix)


def _no_model_in(source: ModelSource, extensions: tuple[str, ...], names: str) -> InputError:
    """Build the error for a folder that is not a model; it names the models inside."""
    folder = source.path or "."
    inside = sorted(name for name in os.listdir(folder) if name.lower().endswith(extensions))
    why = "it is a folder that holds no model of a known format"
    fix = f"pass the folder of one model, or its file: {names}"
    if inside:
        more = (
            f" and {len(inside) - MAX_MODELS_SHOWN} more" if len(inside) > MAX_MODELS_SHOWN else ""
        )
        listed = ", ".join(inside[:MAX_MODELS_SHOWN])
        why = f"it is a folder, and models of these formats are files: it holds {listed}{more}"
        fix = f"pass the file: '{os.path.join(folder, inside[0])}'"
    return InputError(f"cannot open {source.title}", why, fix)
