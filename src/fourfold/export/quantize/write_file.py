"""Write a file atomically."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fourfold.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file and move it into place. On an error, the old file stays unchanged."""
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
            f"cannot write '{path}'", why, "choose another folder with enough disk space"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()
