"""The scripts printed by `fourfold completion` complete command lines in shells."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from command_calls import call
from docs.tiny_model import tiny_model

from fourfold.cli._completing import split_line
from fourfold.device import DeviceInfo

if sys.platform == "win32":
    pytest.skip("Windows has no Unix terminals", allow_module_level=True)

from shells import complete_in_fish, open_shell

NAMES = ("left:eye", "two words")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, device: DeviceInfo) -> Path:
    """Return a prepared file of two models whose names need quoting in shells."""
    folder = tmp_path_factory.mktemp("prepared")
    models = [folder / f"{name}.tflite" for name in NAMES]
    for path in models:
        path.write_bytes(tiny_model())
    created = folder / "eyes.fourfold"
    result = call("prepare", *models, "-o", created, "--device", device.index, "--only-here")
    assert result.exit_code == 0, result.output
    return created


@pytest.fixture
def folder(tmp_path: Path, prepared: Path) -> Path:
    """Return a home folder that contains the prepared file."""
    shutil.copy(prepared, tmp_path)
    (tmp_path / "two words.tflite").touch()
    return tmp_path


def require_shell(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; apt-get install {shell}")


def completions(line: str) -> list[str]:
    result = call("completion", "zsh", "--line", line)
    assert result.exit_code == 0, result.output
    return result.output.removesuffix("\n").split("\n")


def test_splits_incomplete_lines() -> None:
    assert split_line("fourfold ") == ["fourfold", ""]
    assert split_line("fourfold run 'a b") == ["fourfold", "run", "a b"]
    assert split_line("fourfold run \"it's") == ["fourfold", "run", "it's"]
    assert split_line("fourfold run it's") == ["fourfold", "run", "its"]
    assert split_line("fourfold run a\\ b\\") == ["fourfold", "run", "a b"]


def test_completions_start_with_the_prefix_of_the_last_word() -> None:
    assert completions("fourfold rep") == [
        "",
        "plain\treport\tWrite an HTML report of a run: what ran where, why, and how fast.",
    ]
    assert completions("fourfold check --precision=m") == ["--precision=", "plain\tmixed\t"]
    assert completions("fourfold run sub/mo") == ["", "file\tsub/mo\t"]
    assert completions("fourfold run m.tflite photos/ca") == ["", "file\tphotos/ca\t"]
    assert completions("fourfold run m.tflite a.jpg b") == ["", "file\tb\t"]
    assert completions("fourfold run --output=") == ["--output=", "dir\t\t"]
    assert completions("fourfold run --input=image=ph") == ["--input=image=", "file\tph\t"]
    assert completions("fourfold run --input ph") == ["", "file\tph\t"]
    assert completions("fourfold nonsense x") == [""]


def test_completes_precisions_and_devices() -> None:
    precisions = ["plain\tfp32\t", "plain\tmixed\t", "plain\tfp16\t"]
    assert completions("fourfold check --precision ") == ["", *precisions]
    devices = {row.split("\t")[1] for row in completions("fourfold check --device ")[1:]}
    assert {"auto", "cpu", "null"} <= devices


def test_completes_models_of_a_prepared_file_in_the_home_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert completions("fourfold run ~/eyes.fourfold --model l") == ["", "plain\tleft:eye\t"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_bash_and_zsh_complete_lines(shell: str, folder: Path) -> None:
    require_shell(shell)
    lines = {
        "fourfold check --precision=m": "fourfold check --precision=mixed ",
        "fourfold run eyes.fourfold --model left:": "fourfold run eyes.fourfold --model left:eye ",
        "fourfold run eyes.fourfold --model=t": r"fourfold run eyes.fourfold --model=two\ words ",
        "fourfold run --input=x=ey": "fourfold run --input=x=eyes.fourfold ",
        'fourfold run "tw': 'fourfold run "two words.tflite" ',
    }
    with open_shell(shell, folder) as one:
        assert {line: one.complete(line) for line in lines} == lines
        shown = one.choices("fourfold r")
    assert "report" in shown
    assert ("Run a model once, and say" in shown) == (shell == "zsh")  # bash shows no descriptions


def test_zsh_loads_the_script_from_a_function_folder(folder: Path) -> None:
    require_shell("zsh")
    with open_shell("zsh with a folder of functions", folder) as one:
        assert one.complete("fourfold rep") == "fourfold report "


def test_fish_completes_lines(folder: Path) -> None:
    require_shell("fish")
    lines = {
        "fourfold run --dev": ["--device\tauto, an index, or part of a device's name."],
        "fourfold check --precision=m": ["--precision=mixed"],
        "fourfold run eyes.fourfold --model ": [*NAMES],
        "fourfold run --input=x=ey": ["--input=x=eyes.fourfold"],
        "fourfold run 'tw": ["two words.tflite"],
    }
    assert complete_in_fish(folder, [*lines]) == [*lines.values()]
