"""The package's own files, in a folder or in a zip archive, and the digest of its sources.

Plans depend on the sources of some packages. Their digest is independent of the install location.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from fourfold.store.keys import digest, key_of
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    import zipfile
else:
    zipfile = lazy_import("zipfile")

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Path of the archive with the package; '' if it is in a folder.
ARCHIVE: str = getattr(__spec__.loader, "archive", "")
# Packages whose sources plans depend on; '' is the root of the package.
PLAN_PACKAGES = (
    "",
    "graph",
    "processing",
    "plan",
    "codegen",
    "ops",
    "formats",
    "backends",
    "compiler",
)
SOURCE_SUFFIXES = (".py", ".json")


class PackageFile(NamedTuple):
    """One file: its name relative to the package's root, with slashes, and the path to read it
    from.
    """

    name: str
    path: str
    size: int
    written: int  # time in nanoseconds; that of the archive for files in one


def package_files(folders: Collection[str], endings: tuple[str, ...]) -> Iterator[PackageFile]:
    """Yield the files in some folders, recursively, with these suffixes; '' is the root only."""
    return _in_archive(folders, endings) if ARCHIVE else _on_disk(folders, endings)


def read_package_file(file: PackageFile) -> bytes:
    data: bytes = __spec__.loader.get_data(file.path)  # type: ignore[union-attr]
    return data


def _on_disk(folders: Collection[str], endings: tuple[str, ...]) -> Iterator[PackageFile]:
    pending = [(folder, os.path.join(ROOT, folder)) for folder in folders]
    for folder, path in pending:
        with os.scandir(path) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.name.endswith(endings):
                    state = entry.stat()
                    yield PackageFile(name, entry.path, state.st_size, state.st_mtime_ns)
                elif folder and entry.is_dir() and entry.name != "__pycache__":
                    pending.append((name, entry.path))


def _in_archive(folders: Collection[str], endings: tuple[str, ...]) -> Iterator[PackageFile]:
    written = os.stat(ARCHIVE).st_mtime_ns
    prefix = os.path.relpath(ROOT, ARCHIVE).replace(os.sep, "/") + "/"
    with zipfile.ZipFile(ARCHIVE) as archive:
        for entry in archive.infolist():
            name = entry.filename.removeprefix(prefix)
            folder = name.rpartition("/")[0]
            included = folder in folders or any(
                above and folder.startswith(f"{above}/") for above in folders
            )
            if entry.filename.startswith(prefix) and included and name.endswith(endings):
                path = os.path.join(ARCHIVE, *entry.filename.split("/"))
                yield PackageFile(name, path, entry.file_size, written)


@cache
def sources_state() -> str:
    """Return a text that changes with every change of a source, without reading any: the digest of
    names, sizes and times, and the latest time.
    """
    files = _sources()
    seen = "".join(f"{file.name}:{file.size}:{file.written};" for file in files)
    return f"{digest(seen.encode())}:{max((file.written for file in files), default=0)}"


@cache
def digest_sources() -> tuple[str, int, str]:
    """Return the state of the sources, its time, and the digest of their names and contents."""
    state, seen = sources_state(), time.time_ns()
    contents = {file.name: digest(read_package_file(file)) for file in _sources()}
    return state, seen, key_of(contents)


def _sources() -> list[PackageFile]:
    with suppress(OSError):  # frozen into an executable: only the version counts
        return sorted(package_files(PLAN_PACKAGES, SOURCE_SUFFIXES))
    return []
