"""The file that is written: which format its name asks for, and whether it may stand there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fourfold.errors import InputError
from fourfold.formats import Format, formats

PREPARED = ".fourfold"
_MAGIC = b"FOURFOLD"


def format_of_output(path: Path) -> Format | None:
    """The format that a file of this name has; None for a prepared file."""
    if path.suffix.lower() == PREPARED:
        return None
    written = writable_formats()
    for form in written:
        if path.suffix.lower() in form.extensions:
            return form
    endings = [PREPARED, *(ending for form in written for ending in form.extensions)]
    why = f"'{path.suffix}' names no format that is written" if path.suffix else "it has no ending"
    raise InputError(f"cannot write '{path.name}'", why, f"end it in one of {', '.join(endings)}")


def writable_formats() -> list[Format]:
    return [form for form in formats().values() if form.writer is not None]


def check_output(path: Path, sources: Iterable[str]) -> None:
    """Refuses a place that cannot be written to, and one that would cost the model itself."""
    if not path.absolute().parent.is_dir():
        what, why = f"cannot write '{path}'", f"there is no folder '{path.parent}'"
        raise InputError(what, why, "make the folder first, or choose another place")
    if path.is_dir():
        raise InputError(f"cannot write '{path}'", "it is a folder", "choose the name of a file")
    for source in sources:
        if path.exists() and os.path.samefile(path, source):
            what, why = f"'{path}' is the model itself", "it would be lost"
            raise InputError(what, why, "choose another name for the output")
    if path.suffix.lower() == PREPARED and path.is_file():
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) not in (_MAGIC, b""):
                what, why = f"'{path}' is there already", "it is no prepared file"
                raise InputError(what, why, "choose another name for the output")
