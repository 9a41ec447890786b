"""The benchmark of formats: pairs of files, and interleaved measurements compared in pairs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

formats = pytest.importorskip("formats")


def test_compares_neighboring_measurements() -> None:
    """A disturbance during one round of both does not count."""
    ours, theirs = [[2.0, 2.2, 2.4], [20.0], [2.1]], [[2.0, 2.2, 2.4], [20.0], [2.0]]
    result = formats.ratios(ours, theirs)
    assert result == {"of medians": 1.0, "of minima": 1.0}


def test_finds_pairs_in_a_folder(tmp_path: Path) -> None:
    for name in ("a.tflite", "a.onnx", "b.tflite", "c.onnx", "d.tflite", "d.onnx"):
        (tmp_path / name).touch()
    assert [tflite.stem for tflite, _ in formats.find_pairs((), tmp_path)] == ["a", "d"]
    assert [onnx.name for _, onnx in formats.find_pairs(("d",), tmp_path)] == ["d.onnx"]


def test_shows_start_times_of_both_formats() -> None:
    row = {"model": "m", "starts": {"kept": {"tflite": [0.1, 0.2, 0.3], "onnx": [0.1, 0.1, 0.1]}}}
    *_, line = formats.start_table([row])
    assert line == "| m | kept | 200 | 100 | 0.50 | 1.00 |"
