"""Compile the C player for this machine or another one, copy its sources, or print its settings.

The player runs prepared files without Python: on phones, on boards, and in C and C++ programs.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import click

from fourfold.backends.native import TARGETS, build_player, copy_sources, loader_environment
from fourfold.cli._options import examples, json_option
from fourfold.cli._show import byte_count, echo, show_json
from fourfold.config import Config
from fourfold.errors import InputError
from fourfold.store.folder import private_folder

EXAMPLES = examples(
    "fourfold player build -o fourfold-run",
    "fourfold player sources my-project/player",
    'eval "$(fourfold player env)" && ./fourfold-run --probe',
)


@click.group(help=__doc__, epilog=EXAMPLES)
def command() -> None:
    pass


@command.command("build")
@click.option(
    "--target",
    type=click.Choice(tuple(TARGETS)),
    metavar="MACHINE",
    help=f"Machine to compile for: {', '.join(TARGETS)}.  [default: this machine]",
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
    cache = private_folder(Config.from_environment().cache)
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


@command.command("env")
@json_option
def environment(as_json: bool) -> None:
    """Print settings with which the player finds PoCL, or another OpenCL driver, of this Python.

    A system's own OpenCL needs no settings. The lines are for a POSIX shell.
    """
    settings = loader_environment()
    if as_json:
        show_json(settings)
    elif not settings:
        echo("no OpenCL driver was installed with pip: nothing to set", err=True)
    for name, value in {} if as_json else settings.items():
        before = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" if name == "LD_LIBRARY_PATH" else ""
        echo(f"export {name}={shlex.quote(value)}{before}")
