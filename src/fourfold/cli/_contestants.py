"""Who is measured beside fourfold: CPU runtimes that are installed and run the model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
import numpy as np

from fourfold.cli._options import ModelArguments
from fourfold.cli._timing import Call
from fourfold.config import Config
from fourfold.errors import InputError, ModelError, nearest
from fourfold.store.prepared import is_prepared
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.compiler import compile as compiler
    from fourfold.tools.report import rival as rivals
    from fourfold.tools.report.rival import Rival
else:
    compiler, rivals = (
        lazy_import("fourfold.compiler.compile"),
        lazy_import("fourfold.tools.report.rival"),
    )

OWN, NONE = "own", "none"  # the runtime of the model's format, and nobody


def parse_rivals(text: str) -> tuple[str, ...]:
    """The names in '--compare litert,onnxruntime'."""
    names = tuple(name for name in text.split(",") if name)
    known = (OWN, NONE, *rivals.runtime_names())
    for name in names:
        if name not in known:
            why = f"what can be compared with is: {', '.join(known)}"
            raise InputError(f"--compare does not know '{name}'", why, nearest(name, known))
    return () if NONE in names else names


def open_rivals(
    arguments: ModelArguments,
    inputs: Mapping[str, np.ndarray],
    names: Sequence[str],
    threads: int | None,
    streams: int = 1,
) -> dict[str, list[Call]]:
    """Runtimes by their titles, each with a call for every stream. Those that are not installed, or
    do not run the model, are left out, and it is told why.
    """
    if is_prepared(arguments.model):
        if names != (OWN,):
            click.echo("nothing is measured beside it: a prepared file holds no model", err=True)
        return {}
    found = {}
    for rival in _find(arguments, names):
        if rival.reason:
            click.echo(f"nothing is measured beside it: {rival.reason}", err=True)
            continue
        try:
            each = threads or max((os.cpu_count() or 1) // streams, 1)
            calls = [_open(arguments, rival, inputs, each) for _ in range(streams)]
            found[f"{rival.engine.title} CPU"] = calls
        except (InputError, ModelError) as error:
            click.echo(f"{error.what}: {error.why}", err=True)
    return found


def _find(arguments: ModelArguments, names: Sequence[str]) -> list[Rival]:
    content = arguments.readable.content
    own = [rivals.find_rival(content)] if OWN in names else []
    return own + rivals.named_rivals(content, [name for name in names if name != OWN])


def _open(
    arguments: ModelArguments,
    rival: Rival,
    inputs: Mapping[str, np.ndarray],
    threads: int,
) -> Call:
    model = rivals.model_of_signature(arguments.readable.content, arguments.signature)
    given = real_inputs(arguments, inputs)
    return rival.engine.open_model(model, given, threads)


def real_inputs(
    arguments: ModelArguments, inputs: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """What the CPU runtime gets: pictures as the model takes them, ready made."""
    if arguments.pixels is None:
        return inputs
    options = arguments.compile_options(Config.from_environment())
    loaded = compiler.load_model(arguments.readable.content, options)
    names = dict(zip(loaded.model.input_names, loaded.model.main.arguments, strict=True))
    pictures = {
        name: loaded.asked[value].numbers(inputs[name], loaded.model.main.types[value])
        for name, value in names.items()
        if value in loaded.asked
    }
    return {**inputs, **pictures}
