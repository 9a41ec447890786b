"""The options -v and -vv of every command show the log on standard error."""

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


@pytest.mark.parametrize("position", [0, 1, 2])
def test_verbose_works_in_any_position_and_keeps_json_clean(model: str, position: int) -> None:
    words = ["run", model, "--json"]
    words.insert(position, "-v")
    result = invoke(*words)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["precision"] == "fp32"
    assert f"runtime: opened {model} from the model itself" in result.stderr
    assert "compile:" not in result.stderr


@pytest.mark.parametrize("words", [("-vv", "run"), ("-v", "run", "-v"), ("run", "-v", "-v")])
def test_double_verbose_shows_each_step(model: str, words: tuple[str, ...]) -> None:
    shown = invoke(*words, model).stderr
    assert " s  compiler: compiled: " in shown
    assert " s  runtime: opened " in shown


def test_verbose_does_not_affect_later_commands(model: str) -> None:
    """Tests and notebooks call several commands in one process."""
    logger = logging.getLogger("fourfold")
    before = (logger.level, [*logger.handlers])
    invoke("-vv", "run", model)
    assert (logger.level, [*logger.handlers]) == before
    assert "opened" not in invoke("run", model).stderr


def test_warnings_are_shown_by_default(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourfold.cli.run.command.callback", lambda **_: Log("x").warning("so so"))
    assert invoke("run", model).stderr == "so so\n"


def test_every_command_has_the_verbose_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path))

    def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
        context, paths = click.Context(group), []
        for name in group.list_commands(context):
            one = group.get_command(context, name)
            paths.append((*path, name))
            if isinstance(one, click.Group):
                paths += commands(one, *path, name)
        return paths

    every = commands(main)
    assert ("cache", "list") in every
    for path in every:
        assert "-v, --verbose" in invoke(*path, "--help").output, path


def test_rejects_invalid_log_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_LOG", "loud")
    apply_log_settings.cache_clear()
    result = invoke("ops")
    apply_log_settings.cache_clear()
    assert result.exit_code == 2
    assert "error: FOURFOLD_LOG is 'loud'" in result.stderr
