"""Names of inputs on the command line, checked before a model is compiled for nothing."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.cli._inputs import split_file
from fourfold.cli._options import ModelArguments
from fourfold.compile import load_model
from fourfold.config import Config
from fourfold.store.prepared import is_prepared
from fourfold.store.store import configured_store


def check_input_names(arguments: ModelArguments, files: Sequence[str]) -> None:
    """InputError where a file is for an input that the model does not have, or is not there.

    The model is read for it, unless it is prepared or was opened before: such start in no time, and
    what is wrong is told then.
    """
    store = configured_store(Config.from_environment())
    known = store is not None and store.knows_model(arguments.model)
    if not files or known or is_prepared(arguments.model):
        return
    options = arguments.compile_options(Config.from_environment())
    loaded = load_model(arguments.readable.content, options, keep_unsupported=True)
    for text in files:
        split_file(text, loaded.model.input_names)
