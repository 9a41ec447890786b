"""Compiles the player for a machine, once for each state of its sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fourfold.errors import InputError
from fourfold.native.compilers import Compiler, find_compiler
from fourfold.native.sources import digest_player, source_files, source_folder
from fourfold.native.targets import BuildTarget

FLAGS = ("-std=c99", "-O2", "-ffunction-sections", "-fdata-sections")
_LINUX = ("-Wl,--gc-sections", "-s", "-ldl", "-lm", "-lpthread")
# Google Play requires segments that are aligned to pages of 16 KB.
_PAGES = "-Wl,-z,max-page-size=16384"
_ANDROID = ("-Wl,--gc-sections", _PAGES, "-s", "-ldl", "-lm", "-static-libgcc")
_WINDOWS = ("-s",)
PATIENCE = 600.0  # seconds


def build_player(target: BuildTarget | None, cache: str | None) -> Path:
    """The player's command for a target, None being this machine; compiled unless the same was
    before. Without a cache it is made in a folder that the caller owns: the parent of the result.
    """
    compiler, folder = find_compiler(target), source_folder()
    name = "fourfold-run" if target is None else target.program_name
    if cache is None:
        made = Path(tempfile.mkdtemp(prefix="fourfold-player-")) / name
        _compile(compiler, folder, target, made)
        return made
    kept = Path(cache) / "players" / _key(compiler, folder, target) / name
    if not kept.exists():
        _compile_into(kept, compiler, folder, target)
    return kept


def _key(compiler: Compiler, folder: Path, target: BuildTarget | None) -> str:
    parts = (digest_player(folder), *compiler.command, compiler.identity, *_flags(target))
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
    return f"{'host' if target is None else target.name}-{digest}"


def _compile_into(kept: Path, compiler: Compiler, folder: Path, target: BuildTarget | None) -> None:
    """Into the cache: whole or not at all, however many processes do so at once."""
    try:
        kept.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = Path(tempfile.mkdtemp(dir=kept.parent.parent, prefix=".build-"))
    except OSError as error:
        fix = "set FOURFOLD_CACHE to a folder that can be written to"
        raise InputError("the player cannot be kept", str(error), fix) from error
    try:
        _compile(compiler, folder, target, made / kept.name)
        kept.parent.mkdir(exist_ok=True)
        os.replace(made / kept.name, kept)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _compile(compiler: Compiler, folder: Path, target: BuildTarget | None, output: Path) -> None:
    sources = [os.fspath(path) for path in source_files(folder) if path.suffix == ".c"]
    command = [*compiler.command, *FLAGS, f"-I{folder}", *sources, "-o", os.fspath(output)]
    name = "this machine" if target is None else target.name
    fix = f"try another compiler than {compiler.identity or compiler.command[0]}"
    try:
        done = subprocess.run(
            [*command, *_flags(target)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"the player was not compiled for {name}", str(error), fix) from error
    if done.returncode or not output.exists():
        said = done.stderr.strip().splitlines()
        errors = [line for line in said if "error" in line.lower()] or said
        why = "; ".join(errors[:3]) or f"it ended with {done.returncode}"
        raise InputError(f"the player does not compile for {name}", why, fix)


def _flags(target: BuildTarget | None) -> tuple[str, ...]:
    """What the linker needs behind the sources."""
    if target is not None and target.is_windows:
        return _WINDOWS
    return _ANDROID if target is not None and target.is_android else _LINUX
