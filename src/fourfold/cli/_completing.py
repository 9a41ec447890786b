"""What a shell may complete: devices of this machine, and models in a prepared file."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from fourfold.errors import FourfoldError
from fourfold.players import devices
from fourfold.store.prepared import Prepared, is_prepared

OTHERS = {
    "auto": "the best device",
    "cpu": "the CPU runtime of the model's format",
    "null": "a GPU of no particular make, for commands that run nothing",
}


def complete_device(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Addresses, which have no spaces in them, with the names of the devices."""
    try:
        here = {device.address: device.name for device in devices()}
    except FourfoldError:
        here = {}
    known = {**here, **OTHERS}
    return [
        CompletionItem(name, help=about)
        for name, about in known.items()
        if name.startswith(incomplete)
    ]


def complete_model_name(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names of the models in the prepared files that the command line names so far, which is
    not parsed while an option has no value yet.
    """
    paths = [path for path in context.args if is_prepared(path)]
    try:
        found = [name for path in paths for name in Prepared.open(path).models]
    except FourfoldError:
        return []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]
