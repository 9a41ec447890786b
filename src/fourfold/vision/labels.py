"""Read class labels from a text file."""

from __future__ import annotations

from pathlib import Path

from fourfold.errors import InputError


def read_labels(path: str | Path) -> tuple[str, ...]:
    """Read one label per line. Empty lines at the end are ignored.

    Args:
        path: A UTF-8 text file.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        what, fix = f"labels cannot be read from {path}", "pass a text file with one label per line"
        raise InputError(what, str(error), fix) from error
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        what, why = f"{path} has no labels", "the file has no lines"
        raise InputError(what, why, "pass a text file with one label per line")
    return tuple(line.strip() for line in lines)
