"""How commands show what they found: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


def show_json(data: Mapping[str, Any]) -> None:
    click.echo(json.dumps(_plain(data), indent=2, allow_nan=False))


def _plain(data: Any) -> Any:
    """The same data with what JSON cannot say (infinite, not a number) as null."""
    if isinstance(data, Mapping):
        return {str(key): _plain(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; columns whose name starts with '>' stand to the right. Wide where nobody watches."""
    table = Table(header_style="bold")
    for column in columns:
        justify = "right" if column.startswith(">") else "left"
        table.add_column(column.lstrip(">"), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = 200
    console.print(title, style="bold", soft_wrap=True)
    console.print(table)


def progress(*more: TextColumn) -> Progress:
    """A progress bar on the error stream, silent unless that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), *more)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def time_left(seconds: float) -> str:
    """'about 2:05 left', or nothing where nothing is left."""
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes}:{rest:02} left" if seconds >= 1 else ""


def duration(seconds: float) -> str:
    if seconds < 1e-4:
        return f"{seconds * 1e6:.2f} µs"
    return f"{seconds * 1e3:.3f} ms" if seconds < 1 else f"{seconds:.2f} s"


def number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def byte_count(count: int) -> str:
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} bytes"


def shape_text(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"
