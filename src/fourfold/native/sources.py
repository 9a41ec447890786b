"""Where the C sources of the player are: in the installed package, or in a checkout."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from fourfold.errors import InputError

_PACKAGE = Path(__file__).resolve().parent.parent
PLACES = (_PACKAGE / "player_sources", _PACKAGE.parent.parent / "player")
_PATTERNS = ("*.c", "*.h", "command/*.c", "command/*.h")


def source_folder() -> Path:
    """The folder of the player's sources."""
    for place in PLACES:
        if any(place.glob("*.c")):
            return place
    raise InputError(
        "the sources of the player in C are not there",
        f"neither {PLACES[0]} nor {PLACES[1]} has them",
        "install fourfold from its wheel, or from a whole checkout",
    )


def source_files(folder: Path) -> list[Path]:
    """All that is compiled, and what it includes, in one order everywhere."""
    return sorted(path for pattern in _PATTERNS for path in folder.glob(pattern))


def digest_player(folder: Path) -> str:
    """What changes when any of the sources does."""
    total = hashlib.blake2b(digest_size=16)
    for path in source_files(folder):
        content, name = path.read_bytes(), path.relative_to(folder).as_posix()
        total.update(f"{name}:{len(content)}:".encode() + content)
    return total.hexdigest()


def copy_sources(target: Path) -> list[Path]:
    """Put the sources of the library where a project of its own compiles them; gives the files."""
    files = [path for path in sorted(source_folder().iterdir()) if path.is_file()]
    try:
        target.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(path, target)) for path in files]
    except OSError as error:
        fix = "choose a folder that can be written to"
        raise InputError(f"cannot write to '{target}'", str(error), fix) from error
