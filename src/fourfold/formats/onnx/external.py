"""External data: constants stored in files next to the model, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath

from fourfold.errors import FourfoldError, ModelError
from fourfold.formats.source import Content, open_source


@dataclass
class ExternalFiles:
    """The external data files of a model, each memory-mapped once.

    `folder` is None for a model passed as bytes, which has no files next to it.
    """

    folder: str | None
    _opened: dict[str, Content] = field(default_factory=dict)

    def data(self, entries: Mapping[str, str]) -> memoryview:
        """Return the bytes that a tensor's entries refer to, as a view of the file."""
        name = entries.get("location", "")
        content = memoryview(self._open(name))
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", len(content) - offset))
        if min(offset, length) < 0 or offset + length > len(content):
            end = offset + length
            raise ValueError(
                f"bytes {offset} to {end} are not in '{name}', which has {len(content)}"
            )
        return content[offset : offset + length]

    def _open(self, name: str) -> Content:
        if name not in self._opened:
            path = external_path(self.folder, name)
            try:
                self._opened[name] = open_source(path).content
            except FourfoldError as error:
                what = f"'{path}', which holds weights of the model, cannot be opened"
                fix = "put the file next to the model, under its original name"
                raise ModelError(what, error.why, fix) from error
        return self._opened[name]


def external_path(folder: str | None, name: str) -> str:
    """Return the path of a file next to the model.

    Raises ValueError for any other location.
    """
    if folder is None:
        raise ValueError(f"its data is in the file '{name}'; pass the path of the model, not bytes")
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts or PureWindowsPath(name).anchor
    if not path.parts or outside or "\\" in name or "\0" in name:
        raise ValueError(f"its data is in '{name}', which is not in the folder of the model")
    return os.path.join(folder, *path.parts)
