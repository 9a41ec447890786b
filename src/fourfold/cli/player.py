"""Compile the player in C, for this machine or another, or copy its sources.

The player runs prepared files without Python: on phones, on boards, in programs in C and C++.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

from fourfold.backends.native import TARGETS, build_player, copy_sources
from fourfold.cli._options import json_option
from fourfold.cli._show import byte_count, show_json
from fourfold.config import Config
from fourfold.errors import InputError


@click.group(help=__doc__)
def command() -> None:
    pass


@command.command("build")
@click.option("--target", type=click.Choice(tuple(TARGETS)), help="Not this machine, but another.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="  [default: fourfold-run]")
@json_option
def build(target: str | None, output: Path | None, as_json: bool) -> None:
    """Compile the command fourfold-run.

    For this machine by its own compiler, for others by Zig (pip install 'fourfold[player]'), for
    Android by the NDK that ANDROID_NDK_HOME names or the SDK has.
    """
    wanted = None if target is None else TARGETS[target]
    cache = Config.from_environment().cache
    made = build_player(wanted, cache)
    try:
        place = _put(made, output or Path(made.name))
    finally:
        if cache is None:
            shutil.rmtree(made.parent, ignore_errors=True)
    size = place.stat().st_size
    if as_json:
        show_json({"file": str(place), "target": target or "this machine", "bytes": size})
        return
    click.echo(f"{place}: {byte_count(size)}, for {target or 'this machine'}")


def _put(made: Path, output: Path) -> Path:
    """Copy it to where it is wanted: a file, or a folder that is there."""
    place = output / made.name if output.is_dir() else output
    try:
        shutil.copyfile(made, place)
        os.chmod(place, 0o755)
    except OSError as error:
        fix = "choose another place with -o"
        raise InputError(f"cannot write '{place}'", str(error), fix) from error
    return place


@command.command("sources")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@json_option
def sources(folder: Path, as_json: bool) -> None:
    """Copy the player's C files into FOLDER, for a project that compiles them itself."""
    files = copy_sources(folder)
    if as_json:
        show_json({"folder": str(folder), "files": [path.name for path in files]})
        return
    click.echo(f"{len(files)} files in {folder}; a program includes fourfold.h")
