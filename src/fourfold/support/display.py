"""Text and HTML representations for a prompt and for notebooks.

Names of models, operators and devices come from files and drivers: `visible` escapes characters by
which they could control a terminal or disguise themselves. Commands, errors, logs, tables and
reports pass texts through it; data such as JSON and the names of inputs stay exact.

Tables set no color, size or font, so that they match light and dark notebooks, and load nothing
from the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    import html
else:
    html = lazy_import("html")  # needed in notebooks, not by commands

# Control characters but tabs and line ends, marks that change the direction of text, other line
# ends, and halves of characters, which cannot be encoded.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
Cells = Sequence[object]


def visible(text: str) -> str:
    """Return a text with control characters escaped, except tabs and line ends."""
    return text if text.isprintable() else _INVISIBLE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def shown(describe: Callable[[Any], str]) -> Callable[[Any], str]:
    """Decorator for `__str__` and `__repr__` of objects that hold names of models and devices."""

    @wraps(describe)
    def describe_visibly(described: Any) -> str:
        return visible(describe(described))

    return describe_visibly


def visible_data(data: Any) -> Any:
    """Return plain data with control characters escaped in all texts."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, dict):
        return {visible_data(name): visible_data(item) for name, item in data.items()}
    return [visible_data(item) for item in data] if isinstance(data, list | tuple) else data


def escape_html(text: str) -> str:
    """Return a text for HTML, with control characters escaped."""
    return str(html.escape(visible(text)))


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
    return f"<p>{escape_html(title)}</p><table>{heading}{body}</table>"


def _cells(row: Cells, sides: Sequence[str]) -> str:
    if not sides:
        return _cell("th", row[0], "left") + "".join(_cell("td", one, "left") for one in row[1:])
    return "".join(_cell("td", one, side) for one, side in zip(row, sides, strict=True))


def _cell(tag: str, content: object, side: str) -> str:
    text = str(content).lstrip(">") if tag == "th" else str(content)
    return f'<{tag} style="text-align:{side}">{escape_html(text)}</{tag}>'
