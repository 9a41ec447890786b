"""Tasks of a newcomer: prepare, shrink and ship a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fourfold

pytestmark = pytest.mark.needs_device
Shell = Callable[..., str]


def test_one_file_that_starts_hot_elsewhere(shell: Shell) -> None:
    shell("fourfold prepare colors.tflite -o colors.fourfold")
    Path("colors.tflite").unlink()
    assert "red" in shell("fourfold run colors.fourfold photo.jpg")


def test_a_smaller_model_that_still_agrees(folder: Path) -> None:
    """Integers replace floats, calibrated on a few representative pictures."""
    pictures = np.random.default_rng(2).uniform(-1, 1, (8, 1, 12, 12, 3)).astype(np.float32)
    fourfold.quantize("classifier.tflite", "small.tflite", samples=[*pictures])
    assert Path("small.tflite").stat().st_size < Path("classifier.tflite").stat().st_size
    with (
        fourfold.Session("classifier.tflite") as floats,
        fourfold.Session("small.tflite") as integers,
    ):
        for picture in pictures:
            wanted, found = floats.run(picture)["scores"], integers.run(picture)["scores"]
            np.testing.assert_allclose(found, wanted, atol=0.1)


def test_the_same_model_in_another_format(shell: Shell) -> None:
    shell("fourfold optimize classifier.tflite -o classifier.onnx")
    picture = np.random.default_rng(3).random((1, 12, 12, 3), np.float32)
    with (
        fourfold.Session("classifier.tflite") as before,
        fourfold.Session("classifier.onnx") as after,
    ):
        wanted, found = before.run([picture]), after.run([picture])
    np.testing.assert_allclose(found["scores"], wanted["scores"], atol=1e-5)


def test_a_page_that_runs_it_in_a_browser(shell: Shell) -> None:
    assert "fourfold serve page" in shell("fourfold web colors.tflite -o page")
    assert "<script" in Path("page", "index.html").read_text(encoding="utf-8")
