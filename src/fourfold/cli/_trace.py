"""--trace: a command writes down what host and device did, for Perfetto and chrome://tracing."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fourfold.cli._options import Command, ModelArguments
from fourfold.session import Session

TRACE = click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a trace of host and device, for ui.perfetto.dev.",
)


def trace_option(command: Command) -> Command:
    """--trace, as part of a command's `arguments`."""

    @TRACE
    @functools.wraps(command)
    def wrapped(arguments: ModelArguments, trace: Path | None, **rest: Any) -> None:
        command(arguments=replace(arguments, trace=trace), **rest)

    return wrapped


@contextmanager
def traced(arguments: ModelArguments, session: Session, opening: bool) -> Iterator[None]:
    """Runs inside are written to the file that was asked for; with `opening` how the model was
    opened, too.
    """
    if arguments.trace is None:
        yield
        return
    with session.trace(arguments.trace, opening):
        yield
    click.echo(f"the trace is in {arguments.trace}: open it at https://ui.perfetto.dev", err=True)
