"""Writes a file aside and then puts it in place: it is whole, or as it was before."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fourfold.errors import InputError


def write_aside(path: Path, content: bytes) -> None:
    """The file at this path has this content, unless something stops it: then nothing changed."""
    aside = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(
            f"cannot write '{path}'", why, "choose another place, with enough room"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()
