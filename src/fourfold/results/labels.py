"""Labels of classes, from a caller's file."""

from __future__ import annotations

from pathlib import Path

from fourfold.errors import InputError


def read_labels(path: str | Path) -> tuple[str, ...]:
    """A label a line; empty lines at the end do not count."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        what, fix = f"labels cannot be read from {path}", "pass a text file with a label a line"
        raise InputError(what, str(error), fix) from error
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        what, why = f"there are no labels in {path}", "it has no lines"
        raise InputError(what, why, "pass a text file with a label a line")
    return tuple(line.strip() for line in lines)
