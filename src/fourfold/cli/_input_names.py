"""Checks of input files before a model is compiled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fourfold.cli._inputs import name_files
from fourfold.cli._options import ModelArguments
from fourfold.config import Config
from fourfold.errors import InputError
from fourfold.store.prepared import is_prepared
from fourfold.store.store import configured_store
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.compiler import compile as compiler
else:
    compiler = lazy_import("fourfold.compiler.compile")


def check_input_names(
    arguments: ModelArguments, files: Sequence[str], path: Path | None = None
) -> None:
    """Raise InputError for a missing file, or one for an input that the model does not have. `path`
    is a file for the input that `files` leaves.

    A prepared or cached model is not read for this: it opens at once, and is checked then.
    """
    for text in files:
        name, equals, file = text.partition("=")
        if not os.path.isfile(file if equals else text):
            what = f"the file {file or text} for {f'input {name!r}' if equals else 'an input'}"
            why = "there is no such file, or it is a folder"
            raise InputError(f"{what} is missing", why, "check the path")
    if (not files and path is None) or is_prepared(arguments.model):
        return
    store = configured_store(Config.from_environment())
    if store is not None and store.knows_model(arguments.model):
        return
    plain = arguments.with_options(pixels=None, postprocess=None)  # they change no input names
    options = plain.compile_options(Config.from_environment())
    loaded = compiler.load_model(arguments.readable.content, options)
    name_files(loaded.model.input_names, files, path)
