"""Shells complete command lines, by the scripts that `fourfold completion` prints."""

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
    pytest.skip("there are no terminals as of Unix", allow_module_level=True)

from shells import complete_in_fish, open_shell

NAMES = ("left:eye", "two words")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, device: DeviceInfo) -> Path:
    """A prepared file of two models, whose names shells part or quote."""
    folder = tmp_path_factory.mktemp("prepared")
    models = [folder / f"{name}.tflite" for name in NAMES]
    for path in models:
        path.write_bytes(tiny_model())
    made = folder / "eyes.fourfold"
    result = call("prepare", *models, "-o", made, "--device", device.index, "--only-here")
    assert result.exit_code == 0, result.output
    return made


@pytest.fixture
def folder(tmp_path: Path, prepared: Path) -> Path:
    """A home with the prepared file."""
    shutil.copy(prepared, tmp_path)
    (tmp_path / "two words.tflite").touch()
    return tmp_path


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}; apt-get install {shell}")


def offered(line: str) -> list[str]:
    result = call("completion", "zsh", "--line", line)
    assert result.exit_code == 0, result.output
    return result.output.removesuffix("\n").split("\n")


def test_words_of_a_line_that_is_not_finished() -> None:
    assert split_line("fourfold ") == ["fourfold", ""]
    assert split_line("fourfold run 'a b") == ["fourfold", "run", "a b"]
    assert split_line("fourfold run \"it's") == ["fourfold", "run", "it's"]
    assert split_line("fourfold run it's") == ["fourfold", "run", "its"]
    assert split_line("fourfold run a\\ b\\") == ["fourfold", "run", "a b"]


def test_what_is_kept_of_the_last_word_is_told_first() -> None:
    assert offered("fourfold rep") == [
        "",
        "plain\treport\tWrite an HTML report of a run: what ran where, why, and how fast.",
    ]
    assert offered("fourfold check --precision=m") == ["--precision=", "plain\tmixed\t"]
    assert offered("fourfold run sub/mo") == ["", "file\tsub/mo\t"]
    assert offered("fourfold run --output=") == ["--output=", "dir\t\t"]
    assert offered("fourfold run --input=image=ph") == ["--input=image=", "file\tph\t"]
    assert offered("fourfold run --input ph") == ["", "file\tph\t"]
    assert offered("fourfold nonsense x") == [""]


def test_precisions_and_devices() -> None:
    precisions = ["plain\tfp32\t", "plain\tmixed\t", "plain\tfp16\t"]
    assert offered("fourfold check --precision ") == ["", *precisions]
    devices = {row.split("\t")[1] for row in offered("fourfold check --device ")[1:]}
    assert {"auto", "cpu", "null"} <= devices


def test_models_of_a_prepared_file_at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert offered("fourfold run ~/eyes.fourfold --model l") == ["", "plain\tleft:eye\t"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_lines(shell: str, folder: Path) -> None:
    needs(shell)
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
    assert ("Run a model once, and say" in shown) == (shell == "zsh")  # bash shows words alone


def test_zsh_finds_the_script_in_a_folder_of_functions(folder: Path) -> None:
    needs("zsh")
    with open_shell("zsh with a folder of functions", folder) as one:
        assert one.complete("fourfold rep") == "fourfold report "


def test_fish_completes_lines(folder: Path) -> None:
    needs("fish")
    lines = {
        "fourfold run --dev": ["--device\tauto, an index, or part of a device's name."],
        "fourfold check --precision=m": ["--precision=mixed"],
        "fourfold run eyes.fourfold --model ": [*NAMES],
        "fourfold run --input=x=ey": ["--input=x=eyes.fourfold"],
        "fourfold run 'tw": ["two words.tflite"],
    }
    assert complete_in_fish(folder, [*lines]) == [*lines.values()]
