"""Provides a model as a file that readers accept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fourfold.compiler.convert import make_readable
from fourfold.config import Config
from fourfold.formats import find_format
from fourfold.formats.source import open_source

if TYPE_CHECKING:
    from fourfold.store.store import Store


@contextmanager
def readable_file(path: str, store: Store | None, config: Config) -> Iterator[str]:
    """Yield the path of a readable file.

    If the model must be converted, this is a temporary file of the same name, deleted on exit.
    """
    readable = make_readable(path, store, config.conversion_limit, config.trust)
    if isinstance(readable.content, str):
        yield path
        return
    extension = find_format(readable.content).extensions[0]
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        converted = os.path.join(folder, f"{open_source(path).name}{extension}")
        with open(converted, "wb") as file:
            file.write(readable.content)
        yield converted
