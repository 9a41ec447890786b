"""Compile the C player for this machine or another one, or copy its sources.

The player runs prepared files without Python: on phones, on boards, and in C and C++ programs.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

from fourfold.backends.native import TARGETS, build_player, copy_sources
from fourfold.cli._options import examples, json_option
from fourfold.cli._show import byte_count, echo, show_json
from fourfold.config import Config
from fourfold.errors import InputError

EXAMPLES = examples(
    "fourfold player build -o fourfold-run",
    "fourfold player sources my-project/player",
)


@click.group(help=__doc__, epilog=EXAMPLES)
def command() -> None:
    pass


@command.command("build")
@click.option(
    "--target",
    type=click.Choice(tuple(TARGETS)),
    help="Machine to compile for.  [default: this machine]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File or folder to write to.  [default: fourfold-run]",
)
@json_option
def build(target: str | None, output: Path | None, as_json: bool) -> None:
    """Compile the command fourfold-run.

    The compiler is this machine's own, Zig for other machines (pip install 'fourfold[player]'), and
    for Android the NDK of ANDROID_NDK_HOME or of the SDK.
    """
    cache = Config.from_environment().cache
    built = build_player(None if target is None else TARGETS[target], cache)
    try:
        path = _copy(built, output or Path(built.name))
    finally:
        if cache is None:
            shutil.rmtree(built.parent, ignore_errors=True)
    size = path.stat().st_size
    if as_json:
        show_json({"file": str(path), "target": target or "this machine", "bytes": size})
        return
    echo(f"{path}: {byte_count(size)}, for {target or 'this machine'}")


def _copy(built: Path, output: Path) -> Path:
    """Copy the player to a file, or into an existing folder."""
    path = output / built.name if output.is_dir() else output
    try:
        shutil.copyfile(built, path)
        os.chmod(path, 0o755)
    except OSError as error:
        fix = "choose another file or folder with -o"
        raise InputError(f"cannot write '{path}'", str(error), fix) from error
    return path


@command.command("sources")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@json_option
def sources(folder: Path, as_json: bool) -> None:
    """Copy the player's C files into FOLDER, for a project that compiles them itself."""
    files = copy_sources(folder)
    if as_json:
        show_json({"folder": str(folder), "files": [path.name for path in files]})
        return
    echo(f"{len(files)} files in {folder}; a program includes fourfold.h")
