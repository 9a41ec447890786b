"""Options that several commands share, and the settings that they add up to."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fourfold
from fourfold.backends.connections import MACHINES
from fourfold.cli._completing import (
    complete_device,
    complete_input_file,
    complete_model_name,
)
from fourfold.config import PRECISIONS, Config, Precision
from fourfold.errors import InputError, close_names
from fourfold.options import CompileOptions, PlacementOptions, SessionOptions
from fourfold.runtime.opening import model_path
from fourfold.runtime.request import Request
from fourfold.store.prepared import Prepared, is_prepared
from fourfold.support.lazy import lazy_import
from fourfold.support.timings import Timings

if TYPE_CHECKING:
    from fourfold.compiler import convert as conversions
    from fourfold.compiler.convert import ReadableModel
    from fourfold.device import DeviceInfo
    from fourfold.processing import option as processing
    from fourfold.processing.option import PostprocessOption
    from fourfold.processing.pixels import PixelsOption
else:
    conversions = lazy_import("fourfold.compiler.convert")
    processing = lazy_import("fourfold.processing.option")

Command = Callable[..., None]


@dataclass(frozen=True)
class ModelArguments:
    """Which model to run, and how; what is None is left to the session."""

    model: str
    device: str | None
    precision: Precision | None
    shapes: Mapping[str, tuple[int, ...]] | None
    pixels: PixelsOption | None = None
    signature: str | None = None
    postprocess: PostprocessOption | None = None
    trace: Path | None = None  # where a trace is written to
    name: str | None = None  # of one among several in a prepared file

    @property
    def title(self) -> str:
        """What reports call it."""
        file = os.path.basename(os.path.normpath(self.model))
        return file if self.name is None else f"{self.name} of {file}"

    @property
    def options(self) -> SessionOptions:
        """The options of a session on this model."""
        return SessionOptions(
            device=self.device,
            precision=self.precision,
            shapes=self.shapes,
            model=self.name,
            pixels=self.pixels,
            signature=self.signature,
            postprocess=self.postprocess,
        )

    def open(self, **options: Any) -> fourfold.Session:
        """Open a session; `options` are further options of it."""
        return fourfold.Session.open(self.model, replace(self.options, **options))

    @cached_property
    def readable(self) -> ReadableModel:
        """The model as readers take it, for who reads it without a session."""
        return conversions.make_readable_with_config(Config.from_environment(), self.model)

    def compile_options(self, config: Config) -> CompileOptions:
        """Return what to compile, for commands that open no session."""
        return self.options.compile_options(config)

    def request(self, config: Config, device: DeviceInfo) -> Request:
        """Return the request of a session, to look into the cache or a prepared file."""
        return Request(
            model=self.model,
            device=device,
            config=config,
            compile_options=self.compile_options(config),
            placement_options=PlacementOptions(),
            timings=Timings(),
            name=self.name,
        )


ADB_HELP = "A phone by its serial number, or 'auto' for the only one that is attached."
SSH_HELP = "Another machine, by the name that ssh knows it by."
device_option = click.option(
    "--device",
    metavar="NAME",
    help="auto, an index, or part of a device's name.",
    shell_complete=complete_device,
)

input_option = click.option(
    "--input",
    "files",
    multiple=True,
    metavar="NAME=FILE",
    help="An array or a picture.",
    shell_complete=complete_input_file,
)


def device_options(command: Command) -> Command:
    """--device, and --adb and --ssh for those of other machines, given to the command as one
    `device`. Ways to other machines stay open until the command ends.
    """

    @device_option
    @click.option("--adb", metavar="SERIAL", help=ADB_HELP)
    @click.option("--ssh", metavar="HOST", help=SSH_HELP)
    @functools.wraps(command)
    def wrapped(device: str | None, adb: str | None, ssh: str | None, **rest: Any) -> None:
        remote = [f"{api}:{name}" for api, name in (("adb", adb), ("ssh", ssh)) if name is not None]
        named = [*remote, *((device,) if device is not None else ())]
        if len(named) > 1:
            what, why = "several devices were named", f"they are {' and '.join(named)}"
            raise InputError(what, why, "pass one of --device, --adb and --ssh")
        with MACHINES.held():
            command(device=named[0] if named else None, **rest)

    return wrapped


class ModelPath(click.Path):
    """A model's file or folder, or several files with what separates paths between them."""

    def __init__(self) -> None:
        super().__init__(exists=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = model_path(value)
        for one in [path] if os.path.exists(path) else path.split(os.pathsep):
            if not os.path.exists(one):
                raise missing_file(one)
            super().convert(one, param, ctx)
        return path


def missing_file(path: str) -> InputError:
    """A word on a file that is not there, with what has a similar name beside it."""
    folder, name = os.path.split(path)
    why, fix = "there is no such file or folder", "check the path"
    if not os.path.isdir(folder or "."):
        why = f"there is no folder '{folder}'"
    else:
        close = close_names(name, os.listdir(folder or "."))
        similar = " or ".join(f"'{os.path.join(folder, one)}'" for one in close)
        fix = f"did you mean {similar}?" if similar else fix
    return InputError(f"cannot open '{path}'", why, fix)


signature_option = click.option(
    "--signature", metavar="NAME", help="How the model is called, if not by its first graph."
)
shape_option = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=SIZES", help="As in --shape input=4,224,224,3"
)
name_option = click.option(
    "--model",
    "name",
    metavar="NAME",
    help="Which of several models in a prepared file.",
    shell_complete=complete_model_name,
)


def _opening_options(command: Command) -> Command:
    """What models are opened with, given to the command as `opened`: a function from the path of a
    model to its arguments.
    """

    @name_option
    @device_options
    @click.option("--precision", type=click.Choice(PRECISIONS), help="How values are kept.")
    @shape_option
    @signature_option
    @functools.wraps(command)
    def wrapped(
        name: str | None,
        device: str | None,
        precision: Precision | None,
        shapes: tuple[str, ...],
        signature: str | None,
        **rest: Any,
    ) -> None:
        sizes = dict(parse_shape(text) for text in shapes) or None

        def opened(model: str) -> ModelArguments:
            stated = (model, device, precision, sizes)
            return ModelArguments(*stated, signature=signature, name=name)

        command(opened=opened, **rest)

    return wrapped


def model_options(command: Command) -> Command:
    """MODEL and what it is opened with, given to the command as one `arguments`."""

    @click.argument("model", type=ModelPath())
    @_opening_options
    @functools.wraps(command)
    def wrapped(model: str, opened: Callable[[str], ModelArguments], **rest: Any) -> None:
        command(arguments=opened(model), **rest)

    return wrapped


def models_options(command: Command) -> Command:
    """MODELS and what they are opened with, given to the command as a list of `arguments`: of a
    prepared file all models, unless one is named.
    """

    @click.argument("models", nargs=-1, required=True, type=ModelPath())
    @_opening_options
    @functools.wraps(command)
    def wrapped(
        models: tuple[str, ...], opened: Callable[[str], ModelArguments], **rest: Any
    ) -> None:
        found = [one for model in models for one in _each_model(opened(model))]
        command(arguments=found, **rest)

    return wrapped


def _each_model(arguments: ModelArguments) -> Sequence[ModelArguments]:
    if arguments.name is not None or not is_prepared(arguments.model):
        return [arguments]
    names = Prepared.open(arguments.model).models
    return [arguments] if len(names) == 1 else [replace(arguments, name=one) for one in names]


postprocess_option = click.option(
    "--postprocess",
    multiple=True,
    metavar="[OUTPUT=]NAME[:OPTION=VALUE,...]",
    callback=lambda context, parameter, texts: (
        processing.parse_postprocess(texts) if texts else None
    ),
    help="What is made of outputs, as in yolo:score=0.4,most=10 or probs=topk:count=3",
)


def postprocess_options(command: Command) -> Command:
    """The same as part of a command's `arguments`."""

    @postprocess_option
    @functools.wraps(command)
    def wrapped(
        arguments: ModelArguments, postprocess: PostprocessOption | None, **rest: Any
    ) -> None:
        command(arguments=replace(arguments, postprocess=postprocess), **rest)

    return wrapped


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
seed_option = click.option("--seed", default=0, show_default=True, help="Of the random inputs.")


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """'input=1,224,224,3' or 'input=1x224x224x3' as a name and its sizes."""
    name, _, sizes = text.rpartition("=")
    if not name or not re.fullmatch(r"\d+([,x]\d+)*", sizes):
        raise InputError(
            f"--shape {text!r} cannot be read",
            "a shape is a name, an equals sign and sizes",
            "write it as --shape input=1,224,224,3",
        )
    return name, tuple(int(size) for size in re.split("[,x]", sizes))
