"""-v and -vv of every command: the log on standard error, before or after the subcommand."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from small_networks import small_onnx

from fourfold.cli import main
from fourfold.support.log import Log, apply_log_settings


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return str(path)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_it_stands_anywhere_and_leaves_json_alone(model: str, place: int) -> None:
    words = ["run", model, "--json"]
    words.insert(place, "-v")
    found = invoke(*words)
    assert found.exit_code == 0
    assert json.loads(found.stdout)["precision"] == "fp32"
    assert f"runtime: opened {model} from the model itself" in found.stderr
    assert "compile:" not in found.stderr


@pytest.mark.parametrize("words", [("-vv", "run"), ("-v", "run", "-v"), ("run", "-v", "-v")])
def test_two_of_them_show_each_step(model: str, words: tuple[str, ...]) -> None:
    shown = invoke(*words, model).stderr
    assert " s  compiler: compiled: " in shown
    assert " s  runtime: opened " in shown


def test_nothing_is_left_of_it(model: str) -> None:
    """One command after another in the same process, as tests and notebooks call them."""
    logger = logging.getLogger("fourfold")
    before = (logger.level, [*logger.handlers])
    invoke("-vv", "run", model)
    assert (logger.level, [*logger.handlers]) == before
    assert "opened" not in invoke("run", model).stderr


def test_warnings_are_shown_without_it(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourfold.cli.run.command.callback", lambda **_: Log("x").warning("so so"))
    assert invoke("run", model).stderr == "so so\n"


def test_every_command_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path))

    def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
        context, found = click.Context(group), []
        for name in group.list_commands(context):
            one = group.get_command(context, name)
            found.append((*path, name))
            if isinstance(one, click.Group):
                found += commands(one, *path, name)
        return found

    every = commands(main)
    assert ("cache", "list") in every
    for path in every:
        assert "-v, --verbose" in invoke(*path, "--help").output, path


def test_a_wrong_setting_is_an_error_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_LOG", "loud")
    apply_log_settings.cache_clear()
    found = invoke("ops")
    apply_log_settings.cache_clear()
    assert found.exit_code == 2
    assert "error: FOURFOLD_LOG is 'loud'" in found.stderr
