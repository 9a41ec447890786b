"""Tasks of a newcomer: check that results are right, and find the cause if they are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fourfold

pytestmark = pytest.mark.needs_device
Shell = Callable[..., str]


def test_whether_all_of_my_model_runs_on_the_device(shell: Shell, folder: Path) -> None:
    assert "all 3 operators run on" in shell("fourfold check colors.tflite")
    with fourfold.Session("colors.tflite", strict=True) as session:
        assert not session.is_in_parts


def test_whether_the_numbers_are_right(shell: Shell) -> None:
    assert "agree with LiteRT" in shell("fourfold verify classifier.tflite")


def test_which_layer_loses_accuracy_in_mixed(
    ask: Callable[..., dict[str, Any]], loud_model: str
) -> None:
    found = ask(f"fourfold verify {loud_model} --layers --precision mixed", ends=1)
    (sample,) = found["samples"].values()
    verdicts = {layer["name"]: layer["verdict"] for layer in sample["layers"]}
    assert verdicts["quiet"] == "agrees"
    assert verdicts["loud"] == "overflow in half precision"
    assert "loud" in str(sample["first_divergence"])


def test_a_name_that_is_spelt_wrong(shell: Shell) -> None:
    said = shell("fourfold run colors.tflite --input pictures=photo.jpg", ends=2)
    assert "did you mean 'picture'?" in said


def test_a_download_that_was_cut_short(shell: Shell, folder: Path) -> None:
    whole = (folder / "classifier.tflite").read_bytes()
    (folder / "cut.tflite").write_bytes(whole[: len(whole) // 2])
    said = shell("fourfold run cut.tflite", ends=1)
    assert "cut.tflite" in said
    assert "download or export the file again" in said
