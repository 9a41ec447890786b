"""The names in a zip archive: several formats are such archives, and are told apart by them."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fourfold.formats.source import Content
from fourfold.lazy import lazy_import

if TYPE_CHECKING:
    import zipfile
else:
    zipfile = lazy_import("zipfile")

START = b"PK\x03\x04"


def zip_members(content: Content) -> tuple[str, ...]:
    """The names of what an archive holds; none for what is no archive, or is damaged."""
    if content[:4] != START:
        return ()
    with suppress(zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError):
        file: Any = io.BytesIO(content) if isinstance(content, bytes) else content
        return tuple(zipfile.ZipFile(file).namelist())
    return ()
