"""Where a model comes from: a file mapped into memory, a folder, or bytes."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

from fourfold.errors import InputError

Content = bytes | mmap.mmap
PathOrBytes = str | os.PathLike[str] | bytes
MOST_FILES = 10_000  # in a folder that is a model


@dataclass(frozen=True)
class ModelSource:
    """A model as the caller passed it. `path` is None for bytes; a folder has no content of its
    own. A format of several files finds the others by the path and opens them in the same way,
    unless they were passed as well: then their paths are `others`.
    """

    content: Content
    path: str | None = None
    is_folder: bool = False
    others: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What messages call it."""
        return "the model" if self.path is None else f"'{self.path}'"

    @property
    def name(self) -> str:
        """What it is called: its folder, or its file without what comes behind the dot."""
        if self.path is None:
            return "model"
        name = os.path.basename(os.path.abspath(self.path))
        return name if self.is_folder else os.path.splitext(name)[0]

    def has_extension(self, extensions: tuple[str, ...]) -> bool:
        return self.path is not None and self.path.lower().endswith(extensions)


def open_source(model: PathOrBytes) -> ModelSource:
    """A file mapped into memory, so that constants need no copy; bytes as they are. Files that are
    passed together are one path, as lists of folders are in the environment.
    """
    if isinstance(model, bytes):
        return ModelSource(model)
    path = os.fspath(model)
    if os.pathsep in path and not os.path.exists(path):
        path, *others = path.split(os.pathsep)
        return ModelSource(_map_file(path), path, others=tuple(others))
    if os.path.isdir(path):
        return ModelSource(b"", path, is_folder=True)
    return ModelSource(_map_file(path), path)


def files_below(folder: str) -> tuple[str, ...]:
    """All files in a folder and in those below it, in order; none where there is no such folder.
    What would keep a reader waiting, such as a pipe, is refused, and so are far too many files.
    """
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        found.extend(os.path.join(place, name) for name in sorted(names))
        if len(found) > MOST_FILES:
            why = f"it holds more than {MOST_FILES} files"
            raise InputError(
                f"'{folder}' is no part of a model", why, "pass the model's own folder"
            )
    for path in found:
        if not os.path.isfile(path):
            fix = "remove it, or save the model again"
            raise InputError(f"'{path}' cannot be read", "it is no file", fix)
    return tuple(found)


def _map_file(path: str) -> Content:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        fix = "check the path and that the file may be read"
        raise InputError(f"cannot open '{path}'", why, fix) from error
