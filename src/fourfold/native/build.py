"""Compile the player for a machine, once for each version of its sources."""

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
_ANDROID = ("-Wl,--gc-sections", "-s", "-ldl", "-lm", "-static-libgcc")
_WINDOWS = ("-s",)
TIMEOUT_S = 600.0


def build_player(target: BuildTarget | None, cache: str | None) -> Path:
    """Return the player's executable for a target, compiled unless cached; None is this machine.

    Without a cache it is built in a temporary folder that the caller owns: the parent of the
    result.
    """
    compiler, folder = find_compiler(target), source_folder()
    name = "fourfold-run" if target is None else target.program_name
    if cache is None:
        executable = Path(tempfile.mkdtemp(prefix="fourfold-player-")) / name
        _compile(compiler, folder, target, executable)
        return executable
    cached = Path(cache) / "players" / _key(compiler, folder, target) / name
    if not cached.exists():
        _compile_into(cached, compiler, folder, target)
    return cached


def _key(compiler: Compiler, folder: Path, target: BuildTarget | None) -> str:
    parts = (digest_player(folder), *compiler.command, compiler.identity, *_flags(target))
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
    return f"{'host' if target is None else target.name}-{digest}"


def _compile_into(
    cached: Path, compiler: Compiler, folder: Path, target: BuildTarget | None
) -> None:
    """Compile into the cache atomically, even if several processes do so at once."""
    try:
        cached.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder_of_build = Path(tempfile.mkdtemp(dir=cached.parent.parent, prefix=".build-"))
    except OSError as error:
        fix = "set FOURFOLD_CACHE to a writable folder"
        raise InputError("the player cannot be cached", str(error), fix) from error
    try:
        _compile(compiler, folder, target, folder_of_build / cached.name)
        cached.parent.mkdir(exist_ok=True)
        os.replace(folder_of_build / cached.name, cached)
    finally:
        shutil.rmtree(folder_of_build, ignore_errors=True)


def _compile(compiler: Compiler, folder: Path, target: BuildTarget | None, output: Path) -> None:
    sources = [os.fspath(path) for path in source_files(folder) if path.suffix == ".c"]
    command = [*compiler.command, *FLAGS, f"-I{folder}", *sources, "-o", os.fspath(output)]
    name = "this machine" if target is None else target.name
    fix = f"use a compiler other than {compiler.identity or compiler.command[0]}"
    try:
        done = subprocess.run(
            [*command, *_flags(target)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"the player could not be compiled for {name}", str(error), fix) from error
    if done.returncode or not output.exists():
        said = done.stderr.strip().splitlines()
        errors = [line for line in said if "error" in line.lower()] or said
        why = "; ".join(errors[:3]) or f"the compiler exited with {done.returncode}"
        raise InputError(f"the player does not compile for {name}", why, fix)


def _flags(target: BuildTarget | None) -> tuple[str, ...]:
    """Return the linker flags, which follow the sources."""
    if target is not None and target.is_windows:
        return _WINDOWS
    return _ANDROID if target is not None and target.is_android else _LINUX
