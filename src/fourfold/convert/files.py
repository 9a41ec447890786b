"""A model as a file that readers take, for those who need one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fourfold.convert import make_readable
from fourfold.formats import find_format
from fourfold.formats.source import open_source

if TYPE_CHECKING:
    from fourfold.store.store import Store


@contextmanager
def readable_file(path: str, store: Store | None, limit: float) -> Iterator[str]:
    """The path itself where its format is read; else that of a file of the same name with what it
    becomes, which is there as long as this is open.
    """
    readable = make_readable(path, store, limit)
    if isinstance(readable.content, str):
        yield path
        return
    extension = find_format(readable.content).extensions[0]
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        made = os.path.join(folder, f"{open_source(path).name}{extension}")
        with open(made, "wb") as file:
            file.write(readable.content)
        yield made
