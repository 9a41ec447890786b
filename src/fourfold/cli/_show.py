"""Output of commands: tables, lines, progress bars and JSON."""

from __future__ import annotations

import json
import math
import re
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fourfold.support.display import size_text, time_text, visible
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from rich import box, cells
    from rich import console as consoles
    from rich import progress as bars
    from rich import table as tables
    from rich.console import Console, JustifyMethod
    from rich.progress import Progress
else:
    # --help and --json draw nothing.
    box, cells, tables = (lazy_import(f"rich.{name}") for name in ("box", "cells", "table"))
    consoles, bars = lazy_import("rich.console"), lazy_import("rich.progress")

byte_count, duration = size_text, time_text
UNLIMITED = 10_000  # characters of a line that does not go to a terminal
GAP = 2  # characters between two columns
UNBROKEN = "\u00a0"  # no-break space
_UNITS = re.compile(r"(\d) (µs|ms|s|bytes|KiB|MiB|GiB)\b")


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, with control characters of names in it escaped. All commands print with this,
    with the tables below, or as JSON, which escapes them itself.
    """
    click.echo(visible(str(text)), err=err, nl=nl)


def show_json(data: Mapping[str, Any]) -> None:
    """Print data as strict JSON."""
    click.echo(json.dumps(_plain(data), indent=2, allow_nan=False))


def _plain(data: Any) -> Any:
    """Replace infinities and NaN, which JSON cannot express, by None."""
    if isinstance(data, Mapping):
        return {str(key): _plain(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def make_console() -> Console:
    """Return standard output as wide as its terminal; without one, a row is always one line."""
    console = consoles.Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNLIMITED
    return console


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; columns whose name starts with '>' are aligned to the right.

    Cells are broken only between words. If the longest words of all columns do not fit next to each
    other, each row becomes a list of its cells.
    """
    console = make_console()
    cells = [[visible(str(cell)) for cell in row] for row in rows]
    names = [visible(column.lstrip(">")) for column in columns]
    numbers = [column.startswith(">") for column in columns]
    widths = _column_widths(names, cells, numbers, console.width)
    if title:
        console.print(visible(title), style="bold")
    if widths is None:
        _print_lists(console, names, cells)
        return
    table = tables.Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    table.padding = (0, GAP - 1, 0, 0)  # the box draws a space between columns
    for column, name, width in zip(columns, names, widths, strict=True):
        justify: JustifyMethod = "right" if column.startswith(">") else "left"
        table.add_column(name, justify=justify, width=width, overflow="fold")
    for row in cells:
        table.add_row(*row)
    console.print(table)
    console.print()


def _column_widths(
    names: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool], available: int
) -> list[int] | None:
    """Return widths of columns that fit together: those of their cells, the widest ones narrowed as
    far as their longest words allow. None if they do not fit. Numbers and their units are never
    broken.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    widths, least = [], []
    for name, column, is_number in zip(names, columns, numbers, strict=True):
        lines = [line for cell in column for line in cell.split("\n")]
        words = lines if is_number else [word for line in lines for word in line.split()]
        widths.append(max(map(cells.cell_len, (name, *lines))))
        least.append(max(map(cells.cell_len, ("", *name.split(), *words))))
    available -= GAP * (len(names) - 1)
    if sum(least) > available:
        return None
    while sum(widths) > available:
        slack = [width if width > low else -1 for width, low in zip(widths, least, strict=True)]
        widths[slack.index(max(slack))] -= 1
    return widths


def _print_lists(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a list of cells, each on a line with the name of its column."""
    for row in rows:
        grid = tables.Table.grid(padding=(0, GAP, 0, 0))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            if cell:
                grid.add_row(f"  {name}", cell)
        console.print(grid)
        console.print()


def show_line(text: str) -> None:
    """Print lines, broken between words at the width of the terminal, but never between a number
    and its unit.
    """
    width = make_console().width
    for line in _UNITS.sub(f"\\1{UNBROKEN}\\2", text).split("\n"):
        lines = textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        echo("\n".join(lines).replace(UNBROKEN, " "))


def short_name(name: str, limit: int = 40) -> str:
    """Return the first of the names that an exporter joined, or its end if that is too long."""
    first = name.split(";")[0]
    return first if len(first) <= limit else f"…{first[-limit:]}"


def node_name(text: str, limit: int = 40) -> str:
    """Return a node as text, or only its name before the equals sign if the text is long."""
    return text if len(text) <= limit else short_name(text.partition(" = ")[0])


def progress(*more: str) -> Progress:
    """Return a progress bar on standard error, silent unless that is a terminal. `more` are texts
    of rich's columns to show at its end.
    """
    console = consoles.Console(stderr=True)
    text = partial(bars.TextColumn, markup=False)
    begin = (text("{task.description}"), bars.BarColumn(), bars.TimeElapsedColumn())
    columns = (*begin, *map(text, more))
    return bars.Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def time_left(seconds: float) -> str:
    """Return text such as 'about 2:05 left', or '' for less than a second."""
    minutes, remainder = divmod(round(seconds), 60)
    return f"about {minutes}:{remainder:02} left" if seconds >= 1 else ""


def age(since: float) -> str:
    """Return the time since a timestamp, in words."""
    seconds = max(0.0, time.time() - since)
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def shape_text(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"
