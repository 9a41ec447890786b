"""Errors of the command line: suggested commands, and fixes in the words of the shell."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import click
import pytest
from c_player.build import command, environment
from click.testing import CliRunner

from fourfold.backends.native import loader_environment
from fourfold.cli import in_shell_words, main


@pytest.mark.parametrize(
    ("typed", "meant"), [("rnu", "run"), ("benhc", "bench"), ("verfy", "verify")]
)
def test_suggests_similar_commands(typed: str, meant: str) -> None:
    result = CliRunner().invoke(main, [typed])
    assert result.exit_code == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'" in result.output


def test_names_no_command_that_is_not_similar() -> None:
    result = CliRunner().invoke(main, ["xyzzy"])
    assert result.exit_code == 2
    assert "Did you mean" not in result.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pass device='auto' or placement='cpu'", "pass --device auto or --placement cpu"),
        ("pass memory_limit=4096 or more", "pass --memory-limit 4096 or more"),
        ("pass strict=True", "pass --strict"),
        ("open it with threads=2", "open it with threads=2"),
        ("pass --device=auto", "pass --device=auto"),
        ("write it as --shape input=1,224,224,3", "write it as --shape input=1,224,224,3"),
        ("call session.resize({'x': (1, 2)})", "call session.resize({'x': (1, 2)})"),
    ],
)
def test_fixes_name_options_of_the_command(text: str, expected: str) -> None:
    names = ("--device", "--placement", "--memory-limit", "--input")
    options: list[click.Parameter] = [click.Option((name,)) for name in names]
    options.append(click.Option(("--strict",), is_flag=True))
    assert in_shell_words(text, click.Command("run", params=options)) == expected


def test_a_missing_device_is_explained_in_shell_words(tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    assert not CliRunner().invoke(main, ["sample", "colors", "-o", str(model)]).exit_code
    result = CliRunner().invoke(main, ["run", str(model), "--device", "no such device"])
    assert result.exit_code
    assert "device=" not in result.output


def pip_installed() -> dict[str, str]:
    settings = loader_environment()
    if not settings:
        pytest.skip("no OpenCL driver was installed with pip")
    return settings


def test_settings_of_the_player(tmp_path: Path) -> None:
    settings = pip_installed()
    result = CliRunner().invoke(main, ["player", "env", "--json"])
    assert json.loads(result.output) == settings
    lines = CliRunner().invoke(main, ["player", "env"]).output
    script = f"{lines}\n'{command()}' --probe"
    plain = {name: value for name, value in os.environ.items() if name not in settings}
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=False, env=plain
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_player_survives_the_loader_of_pyopencl() -> None:
    """Without PYOPENCL_HOME, that loader reads from a null pointer."""
    settings = pip_installed()
    plain = {name: value for name, value in environment().items() if name not in settings}
    plain["LIBOPENCL_SO_PATH"] = settings["LIBOPENCL_SO_PATH"]
    plain["OCL_ICD_VENDORS"] = settings["LD_LIBRARY_PATH"]
    done = subprocess.run(
        [command(), "--probe"], capture_output=True, text=True, check=False, env=plain
    )
    assert done.returncode >= 0, "the player was killed by a signal"
