"""Options that several commands share, and the model arguments that they result in."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import fourfold
from fourfold.backends.connections import MACHINES
from fourfold.cli._completing import (
    complete_device,
    complete_input_file,
    complete_model_name,
)
from fourfold.cli._show import echo
from fourfold.config import PLACEMENTS, PRECISIONS, Config, PlacementName, Precision
from fourfold.errors import InputError, MissingFileError, close_names
from fourfold.options import CompileOptions, SessionOptions
from fourfold.runtime.opening import model_path, model_title
from fourfold.runtime.request import Request
from fourfold.session import require_compiled
from fourfold.store.prepared import Prepared, is_prepared
from fourfold.support.lazy import lazy_import
from fourfold.support.timings import Timings

if TYPE_CHECKING:
    from fourfold.compiler import convert as conversions
    from fourfold.compiler.convert import ReadableModel
    from fourfold.device import DeviceInfo
    from fourfold.processing import option as processing
    from fourfold.processing.option import PostprocessOption
    from fourfold.tools import example_shapes
else:
    conversions = lazy_import("fourfold.compiler.convert")
    processing = lazy_import("fourfold.processing.option")
    example_shapes = lazy_import("fourfold.tools.example_shapes")

Command = Callable[..., None]


@dataclass(frozen=True)
class ModelArguments:
    """A model on the command line, and the options of a session on it."""

    model: str
    options: SessionOptions = field(default_factory=SessionOptions)
    trace: Path | None = None  # file to write a trace to

    @property
    def title(self) -> str:
        """Name of the model in reports."""
        return model_title(self.model, self.options.model)

    @property
    def device(self) -> str | None:
        """Name of the device; None for that of the settings."""
        name = self.options.device
        return None if name is None else str(name)

    def with_options(self, **changes: Any) -> ModelArguments:
        """Return the same model with some options changed."""
        return replace(self, options=replace(self.options, **changes))

    def open(self, **changes: Any) -> fourfold.Session:
        """Open a session, with some options changed."""
        options = replace(self.options, **changes)
        return require_compiled(fourfold.Session.open(self.model, options))

    @cached_property
    def readable(self) -> ReadableModel:
        """The model in a format that can be read, for commands that open no session."""
        return conversions.make_readable_with_config(self.options.settings(), self.model)

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
            placement_options=self.options.placement_options(config),
            timings=Timings(),
            name=self.options.model,
        )


def examples(*lines: str) -> str:
    """Return the end of a command's help: examples, one a line."""
    return "\b\n" + "\n".join(("Examples:", *(f"  {line}" for line in lines)))


ADB_HELP = "Use the GPU of a phone: its serial number, or 'auto' for the only attached phone."
SSH_HELP = "Use the GPU of another machine: its ssh host name."
PRECISION_HELP = (
    "Precision of values: fp32, mixed (fp16 storage, fp32 arithmetic) or fp16.  "
    "[default: FOURFOLD_PRECISION or fp32]"
)
SHAPE_HELP = "Shape of an input, as in --shape image=4,224,224,3. Repeat for more inputs."
device_option = click.option(
    "--device",
    metavar="NAME",
    help="Device to use: auto, an index, or part of its name.  [default: FOURFOLD_DEVICE or auto]",
    shell_complete=complete_device,
)

inputs_argument = click.argument(
    "paths", nargs=-1, metavar="[INPUTS]...", type=click.Path(exists=False)
)
input_option = click.option(
    "--input",
    "files",
    multiple=True,
    metavar="NAME=FILE",
    help="File with an input: an array (.npy), a picture, a sound (.wav) or a text. "
    "Repeat for more inputs.",
    shell_complete=complete_input_file,
)


def device_options(command: Command) -> Command:
    """Add --device, --adb and --ssh, passed to the command as one `device`. Connections to other
    machines stay open until the command ends.
    """

    @device_option
    @click.option("--adb", metavar="SERIAL", help=ADB_HELP)
    @click.option("--ssh", metavar="HOST", help=SSH_HELP)
    @functools.wraps(command)
    def wrapped(device: str | None, adb: str | None, ssh: str | None, **others: Any) -> None:
        remote = [f"{api}:{name}" for api, name in (("adb", adb), ("ssh", ssh)) if name is not None]
        named = [*remote, *((device,) if device is not None else ())]
        if len(named) > 1:
            what, why = "several devices were named", f"they are {' and '.join(named)}"
            raise InputError(what, why, "pass one of --device, --adb and --ssh")
        with MACHINES.held():
            command(device=named[0] if named else None, **others)

    return wrapped


class ModelPath(click.Path):
    """Path of a model's file or folder, or several files joined by the path separator."""

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
    """Return the error for a missing file, with files of similar names in the same folder."""
    folder, name = os.path.split(path)
    why, fix = "there is no such file or folder", "check the path"
    if not os.path.isdir(folder or "."):
        why = f"there is no folder '{folder}'"
    else:
        close = close_names(name, os.listdir(folder or "."))
        similar = " or ".join(f"'{os.path.join(folder, one)}'" for one in close)
        fix = f"did you mean {similar}?" if similar else fix
    return MissingFileError(f"cannot open '{path}'", why, fix)


signature_option = click.option(
    "--signature",
    metavar="NAME",
    help="Signature to call.  [default: the model's first graph]",
)
shape_option = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=SIZES", help=SHAPE_HELP
)
precision_option = click.option("--precision", type=click.Choice(PRECISIONS), help=PRECISION_HELP)
placement_option = click.option(
    "--placement",
    type=click.Choice(PLACEMENTS),
    default="auto",
    show_default=True,
    help="Placement of operators: auto (the device where it is faster), measure (time both and "
    "keep the faster), gpu (all that the device can run) or cpu.",
)
isolate_option = click.option(
    "--isolate",
    is_flag=True,
    help="Run CPU engines in another process, for models that may be hostile.",
)
name_option = click.option(
    "--model",
    "name",
    metavar="NAME",
    help="Model to use from a prepared file that holds several.",
    shell_complete=complete_model_name,
)


trust_option = click.option(
    "--trust",
    metavar="LEVEL",
    help="Files that may run the code they hold: extension (those whose extension says what they "
    "are), data (none), signed:KEY (prepared files signed with KEY) or all.  "
    "[default: FOURFOLD_TRUST or extension]",
)


def _opening_options(command: Command) -> Command:
    """Add the options that a model is opened with, passed to the command as `opened`: a function
    from the path of a model to its arguments.
    """

    @name_option
    @device_options
    @precision_option
    @shape_option
    @signature_option
    @trust_option
    @functools.wraps(command)
    def wrapped(
        name: str | None,
        device: str | None,
        precision: Precision | None,
        shapes: tuple[str, ...],
        signature: str | None,
        trust: str | None,
        **others: Any,
    ) -> None:
        options = SessionOptions(
            device=device,
            precision=precision,
            shapes=dict(parse_shape(text) for text in shapes) or None,
            model=name,
            signature=signature,
            trust=trust,
        )
        command(opened=lambda model: ModelArguments(model, options), **others)

    return wrapped


def model_options(command: Command) -> Command:
    """Add MODEL and the options it is opened with, passed to the command as one `arguments`."""

    @click.argument("model", type=ModelPath())
    @_opening_options
    @functools.wraps(command)
    def wrapped(model: str, opened: Callable[[str], ModelArguments], **others: Any) -> None:
        arguments = opened(model)
        try:
            command(arguments=arguments, **others)
        except InputError as error:
            if not error.open_inputs:
                raise
            stated = arguments.options.shapes
            files = (*others.get("files", ()), *others.get("paths", ())[:1])
            shapes = command_shapes(error, arguments.title, stated, files)
            command(arguments=arguments.with_options(shapes=shapes), **others)

    return wrapped


def command_shapes(
    error: InputError,
    title: str,
    stated: Mapping[str, tuple[int, ...]] | None,
    files: Sequence[str] = (),
) -> dict[str, tuple[int, ...]]:
    """Return shapes for inputs whose sizes are open: --shape, the shape of an array that is passed,
    or an example. The shapes are printed to standard error.
    """
    shapes = example_shapes.example_shapes(error, None)
    for text in files:
        name, equals, path = text.rpartition("=")
        name = name if equals else next(iter(shapes), "")
        if name in shapes and path.endswith(".npy") and os.path.isfile(path):
            shapes[name] = np.load(path, mmap_mode="r").shape
    shapes |= stated or {}
    text = example_shapes.shapes_text(shapes, before="--shape ")
    echo(f"{title} leaves input sizes open; this command uses {text}", err=True)
    return shapes


def models_options(command: Command) -> Command:
    """Add MODELS and the options they are opened with, passed to the command as a list of
    `arguments`. A prepared file stands for all its models, unless --model names one.
    """

    @click.argument("models", nargs=-1, required=True, type=ModelPath())
    @_opening_options
    @functools.wraps(command)
    def wrapped(
        models: tuple[str, ...], opened: Callable[[str], ModelArguments], **others: Any
    ) -> None:
        listed = [one for model in models for one in _each_model(opened(model))]
        try:
            command(arguments=listed, **others)
        except InputError as error:
            if not error.open_inputs or len(listed) > 1:
                raise
            (only,), files = listed, others.get("files", ())
            shapes = command_shapes(error, only.title, only.options.shapes, files)
            command(arguments=[only.with_options(shapes=shapes)], **others)

    return wrapped


def _each_model(arguments: ModelArguments) -> Sequence[ModelArguments]:
    if arguments.options.model is not None or not is_prepared(arguments.model):
        return [arguments]
    names = Prepared.open(arguments.model, arguments.options.settings().trust).models
    if len(names) == 1:
        return [arguments]
    return [arguments.with_options(model=name) for name in names]


def placement_options(command: Command) -> Command:
    """Add --placement and --isolate, passed to the command as part of its `arguments`, one or
    several.
    """

    @placement_option
    @isolate_option
    @functools.wraps(command)
    def wrapped(
        arguments: ModelArguments | list[ModelArguments],
        placement: PlacementName,
        isolate: bool,
        **others: Any,
    ) -> None:
        changes: dict[str, Any] = {"placement": placement, "isolate": isolate}
        if isinstance(arguments, list):
            placed: Any = [one.with_options(**changes) for one in arguments]
        else:
            placed = arguments.with_options(**changes)
        command(arguments=placed, **others)

    return wrapped


postprocess_option = click.option(
    "--postprocess",
    multiple=True,
    metavar="[OUTPUT=]NAME[:OPTION=VALUE,...]",
    callback=lambda context, parameter, texts: (
        processing.parse_postprocess(texts) if texts else None
    ),
    help="Postprocess outputs on the device, as in --postprocess yolo:score=0.4,most=10 or "
    "--postprocess probs=topk:count=3.",
)


def postprocess_options(command: Command) -> Command:
    """Add --postprocess, passed to the command as part of its `arguments`."""

    @postprocess_option
    @functools.wraps(command)
    def wrapped(
        arguments: ModelArguments, postprocess: PostprocessOption | None, **others: Any
    ) -> None:
        command(arguments=arguments.with_options(postprocess=postprocess), **others)

    return wrapped


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
seed_option = click.option(
    "--seed", default=0, show_default=True, help="Seed of the random inputs."
)


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the name and the sizes in 'input=1,224,224,3' or 'input=1x224x224x3'."""
    name, _, sizes = text.rpartition("=")
    if not name or not re.fullmatch(r"\d+([,x]\d+)*", sizes):
        raise InputError(
            f"--shape {text!r} cannot be read",
            "a shape is a name, an equals sign and sizes",
            "write it as --shape input=1,224,224,3",
        )
    return name, tuple(int(size) for size in re.split("[,x]", sizes))
