"""The modules of a program: one for each entry point, with its bindings."""

from __future__ import annotations

from typing import NamedTuple

from fourfold.errors import ModelError
from fourfold.plan import Program

MARK = "//# "  # begins a module: '//# conv2d_0 r0 r1 w3'
_WRITTEN = {"r": False, "w": True}


class Bind(NamedTuple):
    """A storage buffer of a module: the number of the launch's argument, and whether
    it is written.
    """

    argument: int
    written: bool


class Module(NamedTuple):
    """The text of one entry point, and its bindings after the uniforms."""

    entry: str
    binds: tuple[Bind, ...]
    text: str


def split_modules(program: Program) -> dict[str, Module]:
    """Return the modules by entry point, in the order of the text."""
    begins = f"\n{MARK}"
    _, *parts = f"\n{program.text}".split(begins)
    modules = (_module(part) for part in parts)
    return {module.entry: module for module in modules}


def _module(part: str) -> Module:
    head, _, text = part.partition("\n")
    try:
        entry, *marks = head.split()
        binds = tuple(Bind(int(mark[1:]), _WRITTEN[mark[0]]) for mark in marks)
    except (ValueError, KeyError) as error:
        why = f"a module begins with {head!r}"
        raise ModelError("the program is damaged", why, "prepare the model again") from error
    return Module(entry, binds, text)
