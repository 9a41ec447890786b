"""Shell completion: commands, options, devices, files, and models in a prepared file."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from fourfold.errors import FourfoldError
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    import shlex

    from click import shell_completion as completions
    from click.shell_completion import CompletionItem

    from fourfold import backends
    from fourfold.store import prepared
else:
    shlex, completions = lazy_import("shlex"), lazy_import("click.shell_completion")
    backends, prepared = lazy_import("fourfold.backends"), lazy_import("fourfold.store.prepared")

OTHERS = {
    "auto": "the best device",
    "cpu": "the CPU runtime of the model's format",
    "null": "a generic GPU, for commands that run nothing",
}
CURSOR = "\0"


def complete_line(command: click.Command, line: str) -> str:
    """Return the completions of a command line for the scripts of shells: a line with the part of
    the last word that stays, then a line for each completion: its type, text and help.
    """
    *before, last = split_line(line)
    kept, part = "", last
    if last.startswith("--") and "=" in last:
        name, _, part = last.partition("=")
        kept, before = f"{name}=", [*before, name]
    shell = completions.ShellComplete(command, {}, "fourfold", "")
    items = shell.get_completions(before[1:], part)
    if len(items) == 1 and items[0].type != "plain":  # only FILE of NAME=FILE is completed
        kept += part.removesuffix(items[0].value)
    rows = [(item.type, item.value, " ".join((item.help or "").split())) for item in items]
    return "\n".join([kept, *("\t".join(row) for row in rows)])


def split_line(line: str) -> list[str]:
    """Split a command line into words; the last may be empty, or lack its closing quote."""
    words = []
    for closing in ("", '"', "'"):
        with suppress(ValueError):
            words = shlex.split(f"{line}{CURSOR}{closing}")
            break
    return [word.removesuffix(CURSOR) for word in words]


def complete_device(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete addresses of devices, which contain no spaces; the help is the device's name."""
    try:
        here = {device.address: device.name for device in backends.devices()}
    except FourfoldError:
        here = {}
    devices = {**here, **OTHERS}
    return [
        completions.CompletionItem(name, help=about)
        for name, about in devices.items()
        if name.startswith(incomplete)
    ]


def complete_model_name(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of models in the prepared files on the command line, which click has not
    parsed while an option has no value yet.
    """
    words = [os.path.expanduser(word) for word in context.args]
    paths = [word for word in words if prepared.is_prepared(word)]
    try:
        names = [name for path in paths for name in prepared.Prepared.open(path).models]
    except FourfoldError:
        return []
    return [completions.CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_input_file(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the file of 'NAME=FILE', or of 'FILE' alone."""
    name, equals, file = incomplete.partition("=")
    return [completions.CompletionItem(file if equals else name, type="file")]
