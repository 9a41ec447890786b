"""Options for frames of another size than a model's pictures, as arguments of Pixels."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from fourfold.cli._options import Command
from fourfold.errors import InputError
from fourfold.processing.pixels.colors import MATRICES, MODEL_ORDERS
from fourfold.processing.pixels.frame_fit import FITS, RESIZES


class _FrameOption(NamedTuple):
    """How an argument of Pixels is written on the command line: a choice, or numbers."""

    flag: str
    argument: str
    help: str
    choices: tuple[str, ...] = ()
    numbers: str = ""

    def add(self, command: Command) -> Command:
        kind = click.Choice(self.choices) if self.choices else None
        text = self.numbers or None
        option = click.option(self.flag, self.argument, type=kind, metavar=text, help=self.help)
        return option(command)

    def read(self, text: str) -> Any:
        if self.choices:
            return text
        number: Callable[[str], float] = float if self.argument == "fill" else int
        try:
            return tuple(number(part) for part in re.split("[,x]", text))
        except ValueError as error:
            what, why = f"{self.flag} {text!r} cannot be read", "it takes numbers"
            raise InputError(what, why, f"write it as {self.flag} {self.numbers}") from error


_SIZE = "HEIGHT,WIDTH"
_OPTIONS = (
    _FrameOption("--fit", "fit", "Frames of any size, fitted so into the model's picture.", FITS),
    _FrameOption("--resize", "resize", "How frames are resized.  [default: bilinear]", RESIZES),
    _FrameOption("--frame-size", "size", "Of all frames, instead of any.", numbers=_SIZE),
    _FrameOption("--crop", "crop", "What is cut out of frames.", numbers=f"TOP,LEFT,{_SIZE}"),
    _FrameOption("--fill", "fill", "Of letterbox bars.  [default: 114]", numbers="V[,V,V]"),
    _FrameOption("--into", "into", "The model's picture, where it is open.", numbers=_SIZE),
    _FrameOption("--matrix", "matrix", "Of YUV.  [default: bt601]", tuple(MATRICES)),
    _FrameOption("--model-order", "model_order", "The model's colours.", MODEL_ORDERS),
)


def frame_options(command: Command) -> Command:
    """--fit and what belongs to it, given to the command as one `frame`."""

    @functools.wraps(command)
    def wrapped(**stated: Any) -> None:
        given = {one.argument: (one, stated.pop(one.argument)) for one in _OPTIONS}
        frame = {name: one.read(text) for name, (one, text) in given.items() if text is not None}
        command(frame=frame, **stated)

    found: Command = wrapped
    for one in reversed(_OPTIONS):
        found = one.add(found)
    return found
