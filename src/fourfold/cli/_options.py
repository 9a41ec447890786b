"""Options that several commands share, and the settings that they add up to."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click

import fourfold
from fourfold.config import PRECISIONS, Config, Precision
from fourfold.convert import ReadableModel, make_readable_by
from fourfold.errors import InputError
from fourfold.options import CompileOptions
from fourfold.pixels import PixelsOption
from fourfold.players.connections import MACHINES
from fourfold.processing.option import PostprocessOption, parse_postprocess

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

    def open(self, follow_batch: bool = True) -> fourfold.Session:
        return fourfold.Session(
            self.model,
            self.device,
            self.precision,
            self.shapes,
            follow_batch=follow_batch,
            pixels=self.pixels,
            signature=self.signature,
            postprocess=self.postprocess,
        )

    @cached_property
    def readable(self) -> ReadableModel:
        """The model as readers take it, for who reads it without a session."""
        return make_readable_by(Config.from_environment(), self.model)

    def compile_options(self, config: Config) -> CompileOptions:
        """The same for who compiles without a session."""
        given = (self.precision, self.shapes, self.pixels, self.postprocess, self.signature)
        return CompileOptions.from_config(config, *given)


ADB_HELP = "A phone by its serial number, or 'auto' for the only one that is attached."
SSH_HELP = "Another machine, by the name that ssh knows it by."


def device_options(command: Command) -> Command:
    """--device, and --adb and --ssh for those of other machines, given to the command as one
    `device`. Ways to other machines stay open until the command ends.
    """

    @click.option("--device", metavar="NAME", help="auto, an index, or part of a device's name.")
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

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        for path in [value] if os.path.exists(value) else str(value).split(os.pathsep):
            super().convert(path, param, ctx)
        return value


signature_option = click.option(
    "--signature", metavar="NAME", help="How the model is called, if not by its first graph."
)


def model_options(command: Command) -> Command:
    """MODEL and what it is opened with, given to the command as one `arguments`."""

    @click.argument("model", type=ModelPath(exists=True))
    @device_options
    @click.option("--precision", type=click.Choice(PRECISIONS), help="How values are kept.")
    @click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME=SIZES",
        help="As in --shape input=4,224,224,3",
    )
    @signature_option
    @functools.wraps(command)
    def wrapped(
        model: str,
        device: str | None,
        precision: Precision | None,
        shapes: tuple[str, ...],
        signature: str | None,
        **rest: Any,
    ) -> None:
        sizes = dict(parse_shape(text) for text in shapes) or None
        arguments = ModelArguments(model, device, precision, sizes, signature=signature)
        command(arguments=arguments, **rest)

    return wrapped


postprocess_option = click.option(
    "--postprocess",
    multiple=True,
    metavar="[OUTPUT=]NAME[:OPTION=VALUE,...]",
    callback=lambda context, parameter, texts: parse_postprocess(texts),
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
