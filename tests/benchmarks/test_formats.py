"""The benchmark of formats: pairs of files, and turns that are compared in pairs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

formats = pytest.importorskip("formats")


def test_turns_are_compared_with_their_neighbours() -> None:
    """A disturbance that lasts for one turn of each does not count."""
    ours, theirs = [[2.0, 2.2, 2.4], [20.0], [2.1]], [[2.0, 2.2, 2.4], [20.0], [2.0]]
    found = formats.ratios(ours, theirs)
    assert found == {"of medians": 1.0, "of minima": 1.0}


def test_pairs_of_a_folder(tmp_path: Path) -> None:
    for name in ("a.tflite", "a.onnx", "b.tflite", "c.onnx", "d.tflite", "d.onnx"):
        (tmp_path / name).touch()
    assert [tflite.stem for tflite, _ in formats.find_pairs((), tmp_path)] == ["a", "d"]
    assert [onnx.name for _, onnx in formats.find_pairs(("d",), tmp_path)] == ["d.onnx"]


def test_starts_of_both_are_told() -> None:
    row = {"model": "m", "starts": {"kept": {"tflite": [0.1, 0.2, 0.3], "onnx": [0.1, 0.1, 0.1]}}}
    *_, line = formats.start_table([row])
    assert line == "| m | kept | 200 | 100 | 0.50 | 1.00 |"
