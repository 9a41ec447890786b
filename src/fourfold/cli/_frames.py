"""Options for frames whose size differs from the model's input, as arguments of Pixels."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from fourfold.cli._options import Command
from fourfold.errors import InputError
from fourfold.processing.pixels.colors import MATRICES, MODEL_ORDERS
from fourfold.processing.pixels.frame_fit import FITS, RESIZES


class _FrameOption(NamedTuple):
    """An argument of Pixels as an option of the command line: a choice, or numbers."""

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
    _FrameOption("--fit", "fit", "How frames of any size are fitted into the model's input.", FITS),
    _FrameOption("--resize", "resize", "Resize method.  [default: bilinear]", RESIZES),
    _FrameOption(
        "--frame-size", "size", "Size of all frames, in pixels.  [default: any]", numbers=_SIZE
    ),
    _FrameOption(
        "--crop", "crop", "Part of each frame to use, in pixels.", numbers=f"TOP,LEFT,{_SIZE}"
    ),
    _FrameOption(
        "--fill",
        "fill",
        "Pixel value of letterbox bars, 0 to 255.  [default: 114]",
        numbers="V[,V,V]",
    ),
    _FrameOption(
        "--into", "into", "Size of the model's input, if the model leaves it open.", numbers=_SIZE
    ),
    _FrameOption(
        "--matrix", "matrix", "Color matrix of YUV frames.  [default: bt601]", tuple(MATRICES)
    ),
    _FrameOption(
        "--model-order", "model_order", "Color order that the model was trained on.", MODEL_ORDERS
    ),
)


FITTING = ("fit", "resize", "crop", "fill", "model_order")  # those that need no frames


def frame_options(command: Command, names: Sequence[str] = ()) -> Command:
    """Add --fit and other options of frames, passed to the command as one `frame`.

    Args:
        command: The command.
        names: Arguments of Pixels to add options for; by default all.
    """
    added = [one for one in _OPTIONS if not names or one.argument in names]

    @functools.wraps(command)
    def wrapped(**stated: Any) -> None:
        texts = {one.argument: (one, stated.pop(one.argument)) for one in added}
        frame = {name: one.read(text) for name, (one, text) in texts.items() if text is not None}
        command(frame=frame, **stated)

    extended: Command = wrapped
    for one in reversed(added):
        extended = one.add(extended)
    return extended
