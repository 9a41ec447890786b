"""What a shell may complete: what click knows of, devices, and models in a prepared file."""

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
    "null": "a GPU of no particular make, for commands that run nothing",
}
CURSOR = "\0"


def complete_line(command: click.Command, line: str) -> str:
    """What may stand where a command line ends, for the scripts that shells have: one line with
    what is kept of the last word, then a line for each end of it: its kind, itself, and about it.
    """
    *before, last = split_line(line)
    kept, part = "", last
    if last.startswith("--") and "=" in last:
        name, _, part = last.partition("=")
        kept, before = f"{name}=", [*before, name]
    shell = completions.ShellComplete(command, {}, "fourfold", "")
    found = shell.get_completions(before[1:], part)
    if len(found) == 1 and found[0].type != "plain":  # the file alone of NAME=FILE
        kept += part.removesuffix(found[0].value)
    rows = [(item.type, item.value, " ".join((item.help or "").split())) for item in found]
    return "\n".join([kept, *("\t".join(row) for row in rows)])


def split_line(line: str) -> list[str]:
    """The words of a command line whose last one may be empty, or lack its closing quote."""
    words = []
    for closing in ("", '"', "'"):
        with suppress(ValueError):
            words = shlex.split(f"{line}{CURSOR}{closing}")
            break
    return [word.removesuffix(CURSOR) for word in words]


def complete_device(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Addresses, which have no spaces in them, with the names of the devices."""
    try:
        here = {device.address: device.name for device in backends.devices()}
    except FourfoldError:
        here = {}
    known = {**here, **OTHERS}
    return [
        completions.CompletionItem(name, help=about)
        for name, about in known.items()
        if name.startswith(incomplete)
    ]


def complete_model_name(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names of the models in the prepared files that the command line names so far, which is
    not parsed while an option has no value yet.
    """
    words = [os.path.expanduser(word) for word in context.args]
    paths = [word for word in words if prepared.is_prepared(word)]
    try:
        found = [name for path in paths for name in prepared.Prepared.open(path).models]
    except FourfoldError:
        return []
    return [completions.CompletionItem(name) for name in found if name.startswith(incomplete)]


def complete_input_file(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The file of 'NAME=FILE', or of 'FILE' alone."""
    name, equals, file = incomplete.partition("=")
    return [completions.CompletionItem(file if equals else name, type="file")]
