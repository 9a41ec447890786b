"""Model files of every format become a Model here. A format is a folder of this package: it is
found by being there, and its `FORMAT` says which files it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.errors import FourfoldError, InputError, ModelError
from fourfold.formats.format import Format, one_file
from fourfold.formats.model import Model, SourceGraph
from fourfold.formats.options import DEFAULTS, ReadOptions
from fourfold.formats.source import ModelSource, PathOrBytes, open_source
from fourfold.metadata import Signature
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
    "model_files",
    "read_model",
]

_LOOKS = (
    (b"PK\x03\x04", "a zip archive", "unpack it and pass the model file inside"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"\x89HDF", "an HDF5 file, such as Keras writes", "convert it to .tflite first"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the real file with 'git lfs pull'"),
    (b"<", "an HTML or XML page", "the download went wrong; fetch the file itself"),
    (b"{", "a JSON file", "pass the model file itself"),
    (b"\x08", "a protobuf file, but no ONNX model", "convert it to .onnx or .tflite first"),
    (
        b"\x0a",
        "a protobuf file, such as a TensorFlow graph",
        "pass a Paddle or Caffe model by its path, under its own name; convert others to .tflite",
    ),
)


@cache
def formats() -> Mapping[str, Format]:
    """Every format by the name of its folder."""
    names = [info.name for info in iter_modules(__path__) if info.ispkg]
    return {name: import_module(f"{__name__}.{name}").FORMAT for name in names}


@silent_arithmetic()
def read_model(model: PathOrBytes, options: ReadOptions = DEFAULTS) -> Model:
    """The model in a file, a folder or bytes, of whichever format that is."""
    source = open_source(model)
    form = _format_of(source)
    if source.others and form.files is one_file:
        what = f"{source.title} was passed with {len(source.others)} more"
        raise InputError(what, f"{form.name} models are one file", "pass that file alone")
    return form.read(source, options)


def find_format(model: PathOrBytes) -> Format:
    """The format of a model."""
    return _format_of(open_source(model))


def model_files(model: PathOrBytes) -> tuple[str, ...]:
    """The paths of all files that a model is made of."""
    source = open_source(model)
    return _format_of(source).files(source)


def _format_of(source: ModelSource) -> Format:
    known = formats().values()
    # The path decides where two formats could be meant by the same bytes.
    for form in sorted(known, key=lambda form: not source.has_extension(form.extensions)):
        if form.matches(source):
            return form
    raise _unknown(source)


def _unknown(source: ModelSource) -> FourfoldError:
    names = " or ".join(str(form) for form in formats().values())
    if source.is_folder:
        why = "it is a folder that holds no model of a known format"
        return InputError(f"cannot open {source.title}", why, f"pass the model file in it: {names}")
    start = source.content[:64]
    looks, fix = "something else", f"pass a file of {names}"
    if not start:
        looks, fix = "empty", "download or export the file again"
    for magic, found, remedy in _LOOKS:
        if start.lstrip().startswith(magic) or start.startswith(magic):
            looks, fix = found, remedy
            break
    return ModelError(f"{source.title} is not a model that can be read", f"it is {looks}", fix)
