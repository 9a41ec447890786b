"""The two files of a network: whichever is passed finds the other one beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fourfold.errors import ModelError
from fourfold.formats.source import ModelSource

TEXT, WEIGHTS = ".prototxt", ".caffemodel"


@dataclass(frozen=True)
class NetFiles:
    """The paths of a network's definition and of its weights; None for one that is not there."""

    definition: str | None
    weights: str | None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.definition, self.weights) if path is not None)

    @property
    def size(self) -> int:
        """Bytes of both."""
        return sum(os.path.getsize(path) for path in self.paths)


def find_files(source: ModelSource) -> NetFiles:
    """The files of a network by the path of one of them, or of their folder."""
    path = source.path
    assert path is not None, "networks of several files are told by their paths"
    if source.is_folder:
        names = [os.path.join(path, name) for name in sorted(os.listdir(path))]
        definition = _only([name for name in names if name.lower().endswith(TEXT)], path)
        return NetFiles(definition, _companion(definition, WEIGHTS, path))
    if source.has_extension((TEXT,)):
        return NetFiles(path, _companion(path, WEIGHTS, os.path.dirname(path)))
    return NetFiles(_companion(path, TEXT, os.path.dirname(path)), path)


def _companion(path: str | None, extension: str, folder: str) -> str | None:
    """The file of the same name, else the only one of its kind in the folder."""
    folder = folder or os.curdir
    stem = os.path.splitext(path or "")[0]
    if os.path.isfile(stem + extension):
        return stem + extension
    names = [name for name in sorted(os.listdir(folder)) if name.lower().endswith(extension)]
    return os.path.join(folder, names[0]) if len(names) == 1 else None


def _only(paths: list[str], folder: str) -> str | None:
    if len(paths) > 1:
        what = f"'{folder}' holds {len(paths)} networks"
        fix = "pass the .prototxt of the one that is meant"
        raise ModelError(what, f"it has {', '.join(map(os.path.basename, paths))}", fix)
    return paths[0] if paths else None
