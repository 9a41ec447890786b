"""--trace: record what the host and the device do, for Perfetto and chrome://tracing."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fourfold.cli._options import Command, ModelArguments
from fourfold.cli._show import echo
from fourfold.session import Session

TRACE = click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for a trace of the host and the device, for ui.perfetto.dev.",
)


def trace_option(command: Command) -> Command:
    """Add --trace, passed to the command as part of its `arguments`."""

    @TRACE
    @functools.wraps(command)
    def wrapped(arguments: ModelArguments, trace: Path | None, **others: Any) -> None:
        command(arguments=replace(arguments, trace=trace), **others)

    return wrapped


@contextmanager
def traced(arguments: ModelArguments, session: Session, opening: bool) -> Iterator[None]:
    """Trace the runs inside to the file of --trace, if any; with `opening`, also how the model was
    opened.
    """
    if arguments.trace is None:
        yield
        return
    with session.trace(arguments.trace, opening):
        yield
    show_trace_path(arguments.trace)


def show_trace_path(path: Path | None) -> None:
    """Print where a trace is, if there is one."""
    if path is not None:
        echo(f"the trace is in {path}: open it at https://ui.perfetto.dev", err=True)
