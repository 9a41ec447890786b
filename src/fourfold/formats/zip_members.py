"""Lists the members of a zip archive, to tell apart formats that are zip archives."""

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
    """Return the member names of an archive; () for other content or a damaged archive."""
    if content[:4] != START:
        return ()
    with suppress(zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError):
        file: Any = io.BytesIO(content) if isinstance(content, bytes) else content
        return tuple(zipfile.ZipFile(file).namelist())
    return ()
