"""Builds the player in C, once for all tests, and starts it with this Python's OpenCL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLAYER = ROOT / "player"
LIBRARY = sorted(PLAYER.glob("*.c"))
COMMAND = sorted((PLAYER / "command").glob("*.c"))
STRICT = ("-std=c99", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZED = (*STRICT, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LINKED = ("-ldl", "-lpthread", "-lm")


def compiler() -> str:
    """The system's compiler; without one the test is left out."""
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        pytest.skip("there is no C compiler")
    return found


@cache
def built(sources: tuple[Path, ...], flags: tuple[str, ...] = STRICT) -> Path:
    """A program or library of some sources, kept for as long as none of them changes."""
    own = [*PLAYER.rglob("*.[ch]"), *sources]
    known = b"".join(file.read_bytes() for file in sorted({*own}))
    name = blake2b(known + repr((compiler(), sources, flags)).encode(), digest_size=12).hexdigest()
    path = ROOT / "build" / "player-tests" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}")
        command = [compiler(), *flags, f"-I{PLAYER}", *map(str, sources), "-o", str(aside), *LINKED]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        aside.replace(path)
    return path


def command(flags: tuple[str, ...] = STRICT) -> Path:
    """The program fourfold-run."""
    return built((*LIBRARY, *COMMAND), flags)


def environment(**more: str) -> dict[str, str]:
    """What lets any program find the OpenCL drivers that this Python finds."""
    found = find_spec("pyopencl")
    for place in (found and found.submodule_search_locations) or ():
        for library in Path(place, ".libs").glob("libOpenCL*"):
            paths = {"LIBOPENCL_SO_PATH": str(library), "LD_LIBRARY_PATH": str(library.parent)}
            return {**os.environ, **paths, "PYOPENCL_HOME": place, **more}
    return {**os.environ, **more}


def run(*arguments: str | Path, program: Path | None = None, **more: str) -> Any:
    """What fourfold-run does with some arguments."""
    line = [str(program or command()), *map(str, arguments)]
    return subprocess.run(
        line, capture_output=True, text=True, check=False, env=environment(**more), timeout=600
    )


def told(*arguments: str | Path, status: int = 0, **more: str) -> list[dict[str, Any]]:
    """The lines that fourfold-run tells."""
    done = run(*arguments, "--json", **more)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]
