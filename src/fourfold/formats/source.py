"""ModelSource: a model as a memory-mapped file, a folder, or bytes; and members of zip archives."""

from __future__ import annotations

import io
import mmap
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fourfold.errors import InputError, ModelError, cannot_open
from fourfold.plan.container import open_regular
from fourfold.support.lazy import lazy_import

Content = bytes | mmap.mmap
PathOrBytes = str | os.PathLike[str] | bytes
MAX_FILES = 10_000  # limit for a folder that is a model


@dataclass(frozen=True)
class ModelSource:
    """A model as the caller passed it.

    `path` is None for bytes; `content` is empty for a folder. A format of several files finds the
    others next to `path`, unless the caller passed them as well: then their paths are `others`.
    """

    content: Content
    path: str | None = None
    is_folder: bool = False
    others: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the name of the model for messages."""
        return "the model" if self.path is None else f"'{self.path}'"

    @property
    def name(self) -> str:
        """Return the folder name, or the file name without its extension."""
        if self.path is None:
            return "model"
        name = os.path.basename(os.path.abspath(self.path))
        return name if self.is_folder else os.path.splitext(name)[0]

    def has_extension(self, extensions: tuple[str, ...]) -> bool:
        return self.path is not None and self.path.lower().endswith(extensions)


def open_source(model: PathOrBytes) -> ModelSource:
    """Open a model: map a file into memory, so that constants need no copy, or wrap bytes.

    Several files can be passed as one string, joined with `os.pathsep`.
    """
    if isinstance(model, bytes):
        return ModelSource(model)
    path = os.fspath(model)
    if os.pathsep in path and not os.path.exists(path):
        path, *others = path.split(os.pathsep)
        return ModelSource(map_file(path), path, others=tuple(others))
    if os.path.isdir(path):
        return ModelSource(b"", path, is_folder=True)
    return ModelSource(map_file(path), path)


def files_below(folder: str, model: str) -> tuple[str, ...]:
    """Return all files below a folder in sorted order; none if the folder does not exist.

    `model` is the model's own file. Raises InputError for entries that are not regular files, such
    as pipes, and for too many files, and ModelError for links to places outside the model's folder.
    """
    paths: list[str] = []
    for directory, folders, names in os.walk(folder):
        folders.sort()
        for name in folders:
            check_inside(os.path.join(directory, name), model)
        paths.extend(os.path.join(directory, name) for name in sorted(names))
        if len(paths) > MAX_FILES:
            why = f"it holds more than {MAX_FILES} files"
            raise InputError(
                f"'{folder}' is not part of a model", why, "pass the model's own folder"
            )
    for path in paths:
        check_inside(path, model)
        if not os.path.isfile(path):
            fix = "remove it, or save the model again"
            raise InputError(f"'{path}' cannot be read", "it is not a regular file", fix)
    return tuple(paths)


def check_inside(path: str, model: str) -> str:
    """Return the path of a file that belongs to a model, if it is where files of the model may be.

    These are the folder of the model's own file and that file's folder after resolving links, as
    download caches link every file of a model to one folder. A link to any other place could name
    any file of this machine, and raises ModelError.
    """
    actual = os.path.realpath(path)
    folders = {os.path.realpath(os.path.dirname(model)), os.path.dirname(os.path.realpath(model))}
    if not any(os.path.join(actual, "").startswith(os.path.join(one, "")) for one in folders):
        what = f"'{path}', which belongs to the model '{model}', is not read"
        why = f"it is a link to '{actual}', outside the model's folder"
        raise ModelError(what, why, "copy the file into the model's folder")
    return path


def map_file(path: str) -> Content:
    """Map a regular file into memory; InputError if it cannot be opened."""
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise cannot_open(path, error) from error
    except ValueError as error:
        fix = "check the path and that the file may be read"
        raise InputError(f"cannot open '{path}'", str(error), fix) from error


if TYPE_CHECKING:
    import zipfile
else:
    zipfile = lazy_import("zipfile")

START = b"PK\x03\x04"
MIN_MEMBER_BYTES = 46  # of a directory entry without a name
MAX_NAME_FACTOR = 3  # entries of models are larger, because members have names


END, END_BYTES = b"PK\x05\x06", 22  # the record at the end of an archive, before a comment


def _max_members(content: Content) -> int:
    """Return the number of members that the directory of an archive has room for."""
    tail = content[-END_BYTES - 2**16 :]
    record = tail[tail.rfind(END) :][:END_BYTES]
    is_record = record[:4] == END and len(record) == END_BYTES
    return int.from_bytes(record[12:16], "little") // MIN_MEMBER_BYTES if is_record else 0


def has_too_many_members(content: Content) -> bool:
    """Return whether content is an archive with more members than any model has."""
    return content[:4] == START and _max_members(content) > MAX_FILES * MAX_NAME_FACTOR


def zip_members(content: Content) -> tuple[str, ...]:
    """Return the member names of an archive; () for other content, a damaged archive, or one with
    more members than any model has.
    """
    if content[:4] != START or has_too_many_members(content):
        return ()
    with suppress(zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError):
        file: Any = io.BytesIO(content) if isinstance(content, bytes) else content
        return tuple(zipfile.ZipFile(file).namelist())
    return ()
