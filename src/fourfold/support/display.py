"""Text and HTML representations for a prompt and for notebooks.

Tables set no color, size or font, so that they match light and dark notebooks, and load nothing
from the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    import html
else:
    html = lazy_import("html")  # needed in notebooks, not by commands

_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
Cells = Sequence[object]


def size_text(count: int) -> str:
    """Format a number of bytes in the largest unit it fills."""
    unit = next((pair for pair in _SIZES if count >= pair[0]), None)
    return f"{count} bytes" if unit is None else f"{count / unit[0]:.2f} {unit[1]}"


def time_text(seconds: float) -> str:
    """Format a time with about four digits and its unit."""
    if not seconds:
        return "0 µs"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    number, unit = (seconds * 1e6, "µs") if seconds < 1e-4 else (seconds * 1e3, "ms")
    digits = 1 if number >= 100 or unit == "µs" else 2 if number >= 10 else 3
    return f"{number:.{digits}f} {unit}"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: '1 launch', '3 launches'."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def html_table(title: str, columns: Sequence[str], rows: Iterable[Cells]) -> str:
    """Return an HTML table below a title. Columns whose name starts with '>' are right-aligned.
    Without columns, the first cell of each row is its heading.
    """
    sides = ["right" if column.startswith(">") else "left" for column in columns]
    head = "".join(_cell("th", *pair) for pair in zip(columns, sides, strict=True))
    body = "".join(f"<tr>{_cells(row, sides)}</tr>" for row in rows)
    heading = f"<tr>{head}</tr>" if columns else ""
    return f"<p>{html.escape(title)}</p><table>{heading}{body}</table>"


def _cells(row: Cells, sides: Sequence[str]) -> str:
    if not sides:
        return _cell("th", row[0], "left") + "".join(_cell("td", one, "left") for one in row[1:])
    return "".join(_cell("td", one, side) for one, side in zip(row, sides, strict=True))


def _cell(tag: str, content: object, side: str) -> str:
    text = str(content).lstrip(">") if tag == "th" else str(content)
    return f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>'
