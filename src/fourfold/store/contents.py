"""Contents of entries: files next to the database, or this process's memory."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from fourfold.plan import Container, Section, container_bytes, write_container

ORPHAN_AGE_SECONDS = 3600.0  # older files that no entry names are removed


class FolderContents:
    """Files in one folder, private to the user. A file is written once and never changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "entries"

    def write(self, name: str, sections: Sequence[Section]) -> int:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return write_container(self.folder / name, sections, 0o600, sync=False)

    def read(self, name: str) -> Container:
        if os.path.basename(name) != name:
            raise FileNotFoundError(name)
        return Container.open(self.folder / name)

    def remove(self, name: str) -> None:
        if os.path.basename(name) == name:
            (self.folder / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return [entry.name for entry in os.scandir(self.folder) if not entry.name.startswith(".")]

    def sweep(self, known: set[str]) -> None:
        """Remove files that killed writers left behind."""
        if not self.folder.is_dir():
            return
        for entry in list(os.scandir(self.folder)):
            age = time.time() - entry.stat().st_mtime
            if entry.name not in known and age > ORPHAN_AGE_SECONDS:
                Path(entry.path).unlink(missing_ok=True)


class MemoryContents:
    """Contents of entries in memory."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def write(self, name: str, sections: Sequence[Section]) -> int:
        self._contents[name] = container_bytes(sections)
        return len(self._contents[name])

    def read(self, name: str) -> Container:
        if name not in self._contents:
            raise FileNotFoundError(name)
        return Container(self._contents[name], "an entry in memory")

    def remove(self, name: str) -> None:
        self._contents.pop(name, None)

    def names(self) -> list[str]:
        return list(self._contents)

    def sweep(self, known: set[str]) -> None:
        for name in set(self._contents) - known:
            del self._contents[name]


Contents = FolderContents | MemoryContents
