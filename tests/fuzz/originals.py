"""The files to damage: those of the shared folders, and some that the tests write.

Large weights are replaced by repetitions of their first kilobyte. Their values hardly matter, so a
few megabytes hold all files, in an archive for a machine without the shared folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, is_zipfile

from fuzz.tflite_fields import Fields, find_fields

from fourfold.errors import FourfoldError
from fourfold.formats import find_format

try:
    from fuzz.written_models import MODELS
except ImportError:  # the packages that write files are for tests only
    MODELS = {}

SHARED = Path(__file__).resolve().parents[3] / "shared"
FOLDERS = (SHARED / "conformance", SHARED / "models")
TFLITE = b"TFL3"
KEPT_WEIGHT_BYTES = 1024


@dataclass(frozen=True)
class Original:
    """An undamaged file: its bytes, and its fields if the format is known."""

    content: bytes
    fields: Fields | None

    @property
    def operations(self) -> int:
        return 1 if self.fields is None else max(1, self.fields.operations)


class Originals:
    """All files by title, read on demand."""

    def __init__(self, place: Path | None = None) -> None:
        """`place` is an archive or a folder; by default the shared folders and the tests' own
        files.
        """
        self._place = place
        self.get = lru_cache(64)(self._get)

    @cached_property
    def titles(self) -> tuple[str, ...]:
        return tuple(title for title in sorted(self._sources) if self._is_model(title))

    @cached_property
    def _sources(self) -> Mapping[str, Path | None]:
        """Return the source of each title: a file, the archive that contains it, or a test."""
        if self._place is not None and is_zipfile(self._place):
            with ZipFile(self._place) as archive:
                return dict.fromkeys(archive.namelist(), self._place)
        folders = FOLDERS if self._place is None else (self._place,)
        files = {
            path.relative_to(folder.parent).as_posix(): path
            for folder in folders
            for path in folder.rglob("*")
            if path.is_file()
        }
        return files if self._place is not None else files | dict.fromkeys(_written())

    def _is_model(self, title: str) -> bool:
        try:
            find_format(self._content(title))
        except FourfoldError:
            return False
        return True

    def _content(self, title: str) -> bytes:
        source = self._sources[title]
        if source is None:
            return _written()[title]
        if source != self._place:
            return source.read_bytes()
        with ZipFile(source) as archive:
            return archive.read(title)

    def _get(self, title: str) -> Original:
        content = self._content(title)
        if content[4:8] != TFLITE:
            return Original(content, None)
        fields = find_fields(content)
        return Original(_thinned(content, fields), fields)

    def pack(self, archive: Path) -> None:
        """Write all files into an archive that can be passed as `place` elsewhere."""
        with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=9) as file:
            for title in self.titles:
                file.writestr(title, self.get(title).content)


def _thinned(content: bytes, fields: Fields) -> bytes:
    thin = bytearray(content)
    for weights in fields.weights:
        first = content[weights.start : weights.start + KEPT_WEIGHT_BYTES]
        repeated = first * (len(weights) // KEPT_WEIGHT_BYTES + 1)
        thin[weights.start : weights.stop] = repeated[: len(weights)]
    return bytes(thin)


@lru_cache(1)
def _written() -> Mapping[str, bytes]:
    return {f"written/{name}.tflite": make() for name, make in MODELS.items()}
