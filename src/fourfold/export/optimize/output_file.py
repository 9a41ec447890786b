"""The output file: its format, and checks before it is written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fourfold.errors import InputError
from fourfold.formats import Format, formats

PREPARED = ".fourfold"
_MAGIC = b"FOURFOLD"


def format_of_output(path: Path) -> Format | None:
    """Return the format for the extension of a file; None for a prepared file."""
    if path.suffix.lower() == PREPARED:
        return None
    written = writable_formats()
    for form in written:
        if path.suffix.lower() in form.extensions:
            return form
    endings = [PREPARED, *(ending for form in written for ending in form.extensions)]
    why = f"no format with '{path.suffix}' can be written" if path.suffix else "it has no extension"
    fix = f"use one of the extensions {', '.join(endings)}"
    raise InputError(f"cannot write '{path.name}'", why, fix)


def writable_formats() -> list[Format]:
    return [form for form in formats().values() if form.writer is not None]


def check_output(path: Path, sources: Iterable[str]) -> None:
    """Reject paths that cannot be written, and paths whose file must not be overwritten."""
    if not path.absolute().parent.is_dir():
        what, why = f"cannot write '{path}'", f"there is no folder '{path.parent}'"
        raise InputError(what, why, "create the folder first, or choose another path")
    if path.is_dir():
        raise InputError(f"cannot write '{path}'", "it is a folder", "choose the name of a file")
    for source in sources:
        if path.exists() and os.path.samefile(path, source):
            what, why = f"'{path}' is the model itself", "it would be overwritten"
            raise InputError(what, why, "choose another name for the output")
    if path.suffix.lower() == PREPARED and path.is_file():
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) not in (_MAGIC, b""):
                what, why = f"'{path}' exists already", "it is not a prepared file"
                raise InputError(what, why, "choose another name for the output")
