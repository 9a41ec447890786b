"""Constants that lie in files of their own beside the model, and never anywhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath

from fourfold.errors import FourfoldError, ModelError
from fourfold.formats.source import Content, open_source


@dataclass
class ExternalFiles:
    """The files of a folder that a model names, each mapped into memory once.

    `folder` is None for a model that is passed as bytes: there is nothing beside it.
    """

    folder: str | None
    _opened: dict[str, Content] = field(default_factory=dict)

    def data(self, entries: Mapping[str, str]) -> memoryview:
        """The bytes that the entries of a tensor name, as a view of the file."""
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
                what = f"'{path}', which holds data of the model, cannot be opened"
                fix = "put the file beside the model, under the name that it was exported with"
                raise ModelError(what, error.why, fix) from error
        return self._opened[name]


def external_path(folder: str | None, name: str) -> str:
    """Where a file beside the model is; ValueError for any other place."""
    if folder is None:
        raise ValueError(
            f"its data are in the file '{name}'; pass the path of the model, not bytes"
        )
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts or PureWindowsPath(name).anchor
    if not path.parts or outside or "\\" in name or "\0" in name:
        raise ValueError(f"its data are in '{name}', which is not in the folder of the model")
    return os.path.join(folder, *path.parts)
