"""Locate the C sources of the player, in the installed package or in a checkout."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from fourfold.errors import InputError

_PACKAGE = Path(__file__).resolve().parent.parent
SOURCE_FOLDERS = (_PACKAGE / "player_sources", _PACKAGE.parent.parent / "player")
_PATTERNS = ("*.c", "*.h", "command/*.c", "command/*.h")


def source_folder() -> Path:
    """Return the folder of the player's sources."""
    for folder in SOURCE_FOLDERS:
        if any(folder.glob("*.c")):
            return folder
    raise InputError(
        "the sources of the C player are missing",
        f"neither {SOURCE_FOLDERS[0]} nor {SOURCE_FOLDERS[1]} has them",
        "install fourfold from its wheel, or from a complete checkout",
    )


def source_files(folder: Path) -> list[Path]:
    """Return all sources and headers in a deterministic order."""
    return sorted(path for pattern in _PATTERNS for path in folder.glob(pattern))


def digest_player(folder: Path) -> str:
    """Return a digest of all sources."""
    total = hashlib.blake2b(digest_size=16)
    for path in source_files(folder):
        content, name = path.read_bytes(), path.relative_to(folder).as_posix()
        total.update(f"{name}:{len(content)}:".encode() + content)
    return total.hexdigest()


def copy_sources(target: Path) -> list[Path]:
    """Copy the sources of the library into a folder, to compile them in another project."""
    files = [path for path in sorted(source_folder().iterdir()) if path.is_file()]
    try:
        target.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(path, target)) for path in files]
    except OSError as error:
        fix = "choose a writable folder"
        raise InputError(f"cannot write to '{target}'", str(error), fix) from error
