"""Files and folders that follow the model on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fourfold.cli._images import RAW
from fourfold.cli._options import missing_file
from fourfold.errors import InputError
from fourfold.processing.pictures import EXTENSIONS

READABLE = (*EXTENSIONS, ".npy", ".wav", *RAW)


class InputFiles(NamedTuple):
    """Files to run one after the other. `is_list` is True if several paths or a folder were named,
    even if that folder has only one file.
    """

    paths: tuple[Path, ...] = ()
    is_list: bool = False

    @property
    def only(self) -> Path | None:
        """The file, if one was named."""
        return None if self.is_list or not self.paths else self.paths[0]


def list_input_files(words: Sequence[str]) -> InputFiles:
    """Return the named files, with the files of folders instead of these.

    Raises InputError if none of the files exists, or if a folder has no files that can be inputs.
    """
    paths = tuple(path for word in words for path in _files(Path(word)))
    if paths and not any(path.exists() for path in paths):
        raise missing_file(str(paths[0]))
    return InputFiles(paths, len(words) > 1 or any(os.path.isdir(word) for word in words))


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or those of a folder that can be inputs, by name. Subfolders are not read."""
    if not path.is_dir():
        yield path
        return
    inside = sorted(one for one in path.iterdir() if one.suffix.lower() in READABLE)
    visible = [one for one in inside if one.is_file() and not one.name.startswith(".")]
    if not visible:
        what, why = (
            f"the folder {path} has no inputs",
            f"no file in it ends in {', '.join(READABLE)}",
        )
        raise InputError(what, why, "pass a folder with pictures, arrays or sounds, or name files")
    yield from visible
