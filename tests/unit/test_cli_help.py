"""The help of commands: options in groups, with examples of their values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fourfold.cli import main
from fourfold.cli._help import GROUPS, find_option


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path))  # commands of 'cache' need one


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the commands of a group, and of the groups in it, with the words that call them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        assert one is not None
        yield (*path, name), one
        if isinstance(one, click.Group):
            yield from commands(one, *path, name)


def help_of(*words: str) -> str:
    result = CliRunner().invoke(main, [*words, "--help"], terminal_width=80)
    assert result.exit_code == 0, result.output
    return result.output


def headings(text: str) -> list[str]:
    lines = text.splitlines()
    return [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")]


def section(text: str, heading: str) -> str:
    """Return the text below a heading, up to the next empty line, with single spaces."""
    return " ".join(text.partition(f"\n{heading}:\n")[2].partition("\n\n")[0].split())


def test_options_of_run_are_grouped() -> None:
    text = help_of("run")
    groups = ["Model", "Device", "Precision and placement", "Inputs", "Pictures", "Results"]
    assert headings(text) == [*groups, "Output", "Other"]
    assert "--shape NAME=SIZES" in section(text, "Model")
    assert "--device NAME" in section(text, "Device")
    assert "--adb SERIAL" in section(text, "Device")
    assert "[example: -1,1]" in section(text, "Pictures")
    assert section(text, "Other").startswith("-v, --verbose")
    assert text.index("Examples:") > text.index("Other:")


def test_options_of_optimize_are_grouped() -> None:
    text = help_of("optimize")
    assert "--inputs NAMES" in section(text, "Model"), "values of the model, not files"
    assert "--inputs" not in section(text, "Inputs")
    assert section(text, "Quantization").startswith("--quantize")
    assert "--quantize" not in text.partition("\nInputs:")[2].partition("Examples:")[0]


def test_short_help_has_one_list() -> None:
    assert headings(help_of("cache", "prune")) == ["Options"]
    assert headings(help_of("cache")) == ["Options", "Commands"]


def test_every_option_belongs_to_a_group() -> None:
    missing = [
        f"{' '.join(path)} {option.opts}"
        for path, command in commands(main)
        for option in command.params
        if isinstance(option, click.Option) and find_option(path[-1], option) is None
    ]
    assert missing == [], "add these options to GROUPS in cli/_help.py"


def test_every_grouped_option_exists() -> None:
    named = {f"{path[-1]} {flag}" for path, one in commands(main) for flag in _flags(one)}
    named |= {flag for _, one in commands(main) for flag in _flags(one)} | {"--help"}
    listed = [option for group in GROUPS.values() for option in group]
    assert [option for option in listed if option not in named] == []
    assert len(set(listed)) == len(listed)


def _flags(command: click.Command) -> list[str]:
    return [flag for option in command.params for flag in option.opts]


def test_every_help_fits_80_columns_and_shows_all_options() -> None:
    for path, command in commands(main):
        text = help_of(*path)
        assert [line for line in text.splitlines() if len(line) > 80] == [], path
        shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        assert [one.opts for one in shown if one.opts[-1] not in text] == [], path
