"""Builds the C player once for all tests, and runs it with the OpenCL of this Python."""

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
LINK_FLAGS = ("-ldl", "-lpthread", "-lm")


def compiler() -> str:
    """Return the C compiler; skips the test if there is none."""
    path = shutil.which(os.environ.get("CC", "cc"))
    if path is None:
        pytest.skip("no C compiler was found")
    return path


@cache
def build_program(sources: tuple[Path, ...], flags: tuple[str, ...] = STRICT) -> Path:
    """Build a program or library, and reuse it as long as its sources do not change."""
    files = [*PLAYER.rglob("*.[ch]"), *sources]
    content = b"".join(file.read_bytes() for file in sorted({*files}))
    name = blake2b(
        content + repr((compiler(), sources, flags)).encode(), digest_size=12
    ).hexdigest()
    path = ROOT / "build" / "player-tests" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        command = [
            compiler(),
            *flags,
            f"-I{PLAYER}",
            *map(str, sources),
            "-o",
            str(temporary),
            *LINK_FLAGS,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        temporary.replace(path)
    return path


def command(flags: tuple[str, ...] = STRICT) -> Path:
    """Return the program fourfold-run."""
    return build_program((*LIBRARY, *COMMAND), flags)


def environment(**more: str) -> dict[str, str]:
    """Return the environment in which programs find the OpenCL drivers of this Python."""
    spec = find_spec("pyopencl")
    for folder in (spec and spec.submodule_search_locations) or ():
        for library in Path(folder, ".libs").glob("libOpenCL*"):
            paths = {"LIBOPENCL_SO_PATH": str(library), "LD_LIBRARY_PATH": str(library.parent)}
            return {**os.environ, **paths, "PYOPENCL_HOME": folder, **more}
    return {**os.environ, **more}


def run(*arguments: str | Path, program: Path | None = None, **more: str) -> Any:
    """Run fourfold-run with some arguments."""
    line = [str(program or command()), *map(str, arguments)]
    return subprocess.run(
        line, capture_output=True, text=True, check=False, env=environment(**more), timeout=600
    )


def run_json(*arguments: str | Path, status: int = 0, **more: str) -> list[dict[str, Any]]:
    """Run fourfold-run with --json, and return its lines."""
    done = run(*arguments, "--json", **more)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]
