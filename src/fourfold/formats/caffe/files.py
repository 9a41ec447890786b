"""Finds the two files of a network: definition and weights."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fourfold.errors import InputError, ModelError
from fourfold.formats.source import ModelSource, check_inside

TEXT, WEIGHTS = ".prototxt", ".caffemodel"


@dataclass(frozen=True)
class NetFiles:
    """The paths of a network's definition and weights; None for a missing file."""

    definition: str | None
    weights: str | None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.definition, self.weights) if path is not None)

    @property
    def size(self) -> int:
        """Return the size of both files in bytes."""
        return sum(os.path.getsize(path) for path in self.paths)


def find_files(source: ModelSource) -> NetFiles:
    """Return the files of a network, from the path of one of them or of their folder."""
    path = source.path
    assert path is not None, "Caffe networks are recognized by their paths"
    if source.others:
        return _passed_files((path, *source.others))
    if source.is_folder:
        definition, weights = (_only(_files(path, one), path) for one in (TEXT, WEIGHTS))
        if definition is not None and weights is not None:
            check_inside(weights, definition)
        return NetFiles(definition, weights)
    if source.has_extension((TEXT,)):
        return NetFiles(path, _companion(path, WEIGHTS))
    return NetFiles(_companion(path, TEXT), path)


def _passed_files(paths: tuple[str, ...]) -> NetFiles:
    """Return both files, which the caller may pass in any order."""
    kinds = {os.path.splitext(path)[1].lower(): path for path in paths}
    if set(kinds) != {TEXT, WEIGHTS} or len(paths) != 2:
        what = f"{', '.join(map(repr, paths))} are not a Caffe network"
        raise InputError(
            what, f"a network is one {TEXT} and one {WEIGHTS} file", "pass these two files"
        )
    return NetFiles(kinds[TEXT], kinds[WEIGHTS])


def _files(folder: str, extension: str) -> list[str]:
    names = sorted(os.listdir(folder or os.curdir))
    return [os.path.join(folder, name) for name in names if name.lower().endswith(extension)]


def _companion(path: str, extension: str) -> str | None:
    """Return the file of the same name, or the only candidate if the folder holds one network."""
    stem, own = os.path.splitext(path)
    if os.path.isfile(stem + extension):
        return check_inside(stem + extension, path)
    folder = os.path.dirname(path)
    others = _files(folder, extension)
    if len(others) == len(_files(folder, own)) == 1:
        return check_inside(others[0], path)
    return None


def _only(paths: list[str], folder: str) -> str | None:
    if len(paths) > 1:
        what = f"'{folder}' holds more than one network"
        fix = "pass the .prototxt of the network to open"
        raise ModelError(what, f"it has {', '.join(map(os.path.basename, paths))}", fix)
    return paths[0] if paths else None
