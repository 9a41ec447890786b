"""The two files of a network: whichever is passed finds the other one beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fourfold.errors import InputError, ModelError
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
    if source.others:
        return _given((path, *source.others))
    if source.is_folder:
        definition = _only(_files(path, TEXT), path)
        return NetFiles(definition, _only(_files(path, WEIGHTS), path))
    if source.has_extension((TEXT,)):
        return NetFiles(path, _companion(path, WEIGHTS))
    return NetFiles(_companion(path, TEXT), path)


def _given(paths: tuple[str, ...]) -> NetFiles:
    """Both files, in any order."""
    kinds = {os.path.splitext(path)[1].lower(): path for path in paths}
    if set(kinds) != {TEXT, WEIGHTS} or len(paths) != 2:
        what = f"{', '.join(map(repr, paths))} are no network"
        raise InputError(what, f"it is one {TEXT} and one {WEIGHTS}", "pass these two")
    return NetFiles(kinds[TEXT], kinds[WEIGHTS])


def _files(folder: str, extension: str) -> list[str]:
    names = sorted(os.listdir(folder or os.curdir))
    return [os.path.join(folder, name) for name in names if name.lower().endswith(extension)]


def _companion(path: str, extension: str) -> str | None:
    """The file of the same name; else the only one, where the folder holds one network."""
    stem, own = os.path.splitext(path)
    if os.path.isfile(stem + extension):
        return stem + extension
    folder = os.path.dirname(path)
    others = _files(folder, extension)
    return others[0] if len(others) == len(_files(folder, own)) == 1 else None


def _only(paths: list[str], folder: str) -> str | None:
    if len(paths) > 1:
        what = f"'{folder}' holds more than one network"
        fix = "pass the .prototxt of the one that is meant"
        raise ModelError(what, f"it has {', '.join(map(os.path.basename, paths))}", fix)
    return paths[0] if paths else None
