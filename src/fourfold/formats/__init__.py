"""Model files of every format become a Model here. A format is a folder of this package: it is
found by being there, and its `FORMAT` says which files it reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.errors import FourfoldError, InputError, ModelError
from fourfold.formats.format import Format
from fourfold.formats.model import Model, SourceGraph
from fourfold.formats.options import DEFAULTS, ReadOptions
from fourfold.formats.source import ModelSource, PathOrBytes, open_source
from fourfold.formats.unknown import look_at
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
    "identify",
    "model_files",
    "read_model",
]
SHOWN = 3  # models in a folder that are named
AMBIGUOUS = (".json",)  # extensions that most files have for another reason


@cache
def formats() -> Mapping[str, Format]:
    """Every format by the name of its folder."""
    names = [info.name for info in iter_modules(__path__) if info.ispkg]
    return {name: import_module(f"{__name__}.{name}").FORMAT for name in names}


@silent_arithmetic()
def read_model(model: PathOrBytes, options: ReadOptions = DEFAULTS) -> Model:
    """The model in a file, a folder or bytes, of whichever format that is."""
    source, form = identify(model)
    form.check_others(source)
    return form.read(source, options)


def identify(model: PathOrBytes) -> tuple[ModelSource, Format]:
    """A model as it is opened, and its format."""
    source = open_source(model)
    return source, _format_of(source)


def find_format(model: PathOrBytes) -> Format:
    """The format of a model."""
    return identify(model)[1]


def model_files(model: PathOrBytes) -> tuple[str, ...]:
    """The paths of all files that a model depends on: those that it is made of, and where it is
    converted, those that tell with which version of the converter.
    """
    source, form = identify(model)
    return (*form.files(source), *(() if form.converter is None else form.converter.notes))


def _format_of(source: ModelSource) -> Format:
    known = formats().values()
    try:
        # The path decides where two formats could be meant by the same bytes.
        for form in sorted(known, key=lambda form: not source.has_extension(form.extensions)):
            if form.matches(source):
                return form
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
    """A word on a folder that is no model, with the models that lie in it."""
    folder = source.path or "."
    inside = sorted(name for name in os.listdir(folder) if name.lower().endswith(extensions))
    why = "it is a folder that holds no model of a known format"
    fix = f"pass the folder of one model, or its file: {names}"
    if inside:
        more = f" and {len(inside) - SHOWN} more" if len(inside) > SHOWN else ""
        listed = ", ".join(inside[:SHOWN])
        why = f"it is a folder, and models of these formats are files: it holds {listed}{more}"
        fix = f"pass the file: '{os.path.join(folder, inside[0])}'"
    return InputError(f"cannot open {source.title}", why, fix)
