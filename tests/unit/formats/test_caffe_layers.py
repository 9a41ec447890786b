"""Each Caffe layer type computes what OpenCV or its formula computes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from caffe_answers import opencv_answer
from caffe_cases import CASES, CaffeCase
from caffe_writer import write_net
from stored_answers import check_answers, stored, summary

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import read_model
from fourfold.formats.caffe.convert import rules

EXPECTED = stored("caffe")
OPENCV_CASES = [name for name, case in CASES.items() if case.judged]
ALIASES = {"Split", "Silence", "ReLU6", "ConvolutionDepthwise", "DepthwiseConvolution", "Upsample"}


def run_case(case: CaffeCase, folder: Path) -> list[np.ndarray]:
    graph = read_model(write_net(folder, case.text, case.blobs)).main
    return list(evaluate(graph, case.arrays).values())


@pytest.mark.parametrize("name", OPENCV_CASES)
def test_matches_stored_opencv_results(name: str, tmp_path: Path) -> None:
    check_answers(EXPECTED[name], run_case(CASES[name], tmp_path))


@pytest.mark.parametrize("name", OPENCV_CASES)
def test_matches_opencv(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("cv2") is None:
        pytest.skip("OpenCV is not installed")
    case = CASES[name]
    for theirs, ours in zip(
        opencv_answer(import_module("cv2"), case, tmp_path), run_case(case, tmp_path), strict=True
    ):
        assert theirs.shape == ours.shape
        assert np.abs(theirs - ours).max() <= 1e-4 * max(float(np.ptp(theirs)), 1e-6)


def _normalized(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    length = np.sqrt((x * x).sum(axis=1, keepdims=True) + 1e-10)
    return np.asarray(x / length * scale.reshape(-1, 1, 1))


FORMULAS: dict[str, Callable[..., np.ndarray]] = {
    "bias": lambda x, b: x + b.reshape(-1, 1, 1),
    "log": lambda x: np.log10(x + 3),
    "threshold": lambda x: (x > 0.25).astype(np.float32),
    "argmax": lambda x: x.argmax(axis=1)[:, np.newaxis].astype(np.float32),
    "tile": lambda x: np.concatenate([x, x], axis=1),
    "reduction": lambda x: (x * x).sum(axis=(1, 2, 3)),
    "normalize": _normalized,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_matches_formula(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    expected = FORMULAS[name](*case.arrays.values(), *case.blobs.get("y", ()))
    check_answers([summary(expected)], run_case(case, tmp_path))


def test_every_case_has_a_reference() -> None:
    assert set(OPENCV_CASES) | set(FORMULAS) == set(CASES)


def test_every_rule_has_a_case() -> None:
    text = "".join(case.text for case in CASES.values())
    assert {name for name in rules() if f'type: "{name}"' not in text} == ALIASES


def test_rows_without_a_detection_have_image_index_minus_one(tmp_path: Path) -> None:
    case = CASES["detection"]
    nothing = case.text.replace("confidence_threshold: 0.3", "confidence_threshold: 2.0")
    graph = read_model(write_net(tmp_path, nothing, {})).main
    (result,) = evaluate(graph, case.arrays).values()
    assert (result[..., 0] == -1).all()
    assert not result[..., 1:].any()
