"""Each operator type computes what Paddle Inference computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from paddle_answers import paddle_answer, pir_arrays
from paddle_cases import CASES, PaddleCase, pir_model
from paddle_writer import Operator, Program, write_model
from stored_answers import check_answers, numbers, stored, summary

from fourfold.backends.cpu.paddle import inference
from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import UnsupportedError
from fourfold.formats import ReadOptions, read_model

EXPECTED = stored("paddle")


def run_case(case: PaddleCase, folder: Path) -> list[np.ndarray]:
    graph = read_model(write_model(folder, case.program)).main
    return list(evaluate(graph, case.arrays).values())


@pytest.mark.parametrize("name", CASES)
def test_matches_stored_paddle_results(name: str, tmp_path: Path) -> None:
    check_answers(EXPECTED[name], run_case(CASES[name], tmp_path))


def test_reads_a_json_program(tmp_path: Path) -> None:
    model = read_model(pir_model().write(tmp_path), ReadOptions({"x": (2, 3, 9, 11)}))
    assert (model.input_names, model.output_names) == (("x",), ("fetch_name_0",))
    assert model.open_sizes == ((-1, 3, 9, 11),)
    check_answers(EXPECTED["pir"], list(evaluate(model.main, pir_arrays()).values()))


@pytest.mark.parametrize("name", CASES)
def test_matches_paddle(name: str, tmp_path: Path) -> None:
    if not inference.installed():
        pytest.skip("Paddle Inference is not installed")
    case = CASES[name]
    path = write_model(tmp_path, case.program)
    theirs = paddle_answer(inference.runtime(), path, case.arrays)
    for expected, result in zip(theirs, run_case(case, tmp_path), strict=True):
        check_answers([summary(expected)], [result])


REMOVED_OPERATORS: dict[str, tuple[PaddleCase, Callable[[np.ndarray], np.ndarray]]] = {
    "pad2d": (
        PaddleCase("pad2d", {"paddings": [1, 2, 3, 0], "mode": "reflect"}),
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 0)), mode="reflect"),
    ),
    "flatten2": (PaddleCase("flatten2", {"axis": 2}), lambda x: x.reshape(12, 143)),
    "fc": (
        PaddleCase(
            "fc", {"activation_type": "relu"}, (3, 5), {"W": numbers((5, 4))}, reads="Input"
        ),
        lambda x: np.maximum(x @ numbers((5, 4)), 0),
    ),
    "nearest_interp": (
        PaddleCase("nearest_interp", {"out_h": 22, "out_w": 26, "align_corners": False}),
        lambda x: x.repeat(2, axis=2).repeat(2, axis=3),
    ),
}


@pytest.mark.parametrize("name", REMOVED_OPERATORS)
def test_matches_formula_for_operators_that_paddle_removed(name: str, tmp_path: Path) -> None:
    case, formula = REMOVED_OPERATORS[name]
    check_answers([summary(formula(case.arrays["x"]))], run_case(case, tmp_path))


@pytest.mark.parametrize(
    "ends",
    [np.array([7, -4, -3], np.int64), np.array([0.5, 2, 0.3], np.float32)],
)
def test_range_is_folded(ends: np.ndarray, tmp_path: Path) -> None:
    parameters = dict(zip(("start", "end", "step"), ends.reshape(3, 1), strict=True))
    inputs = {"Start": ["start"], "End": ["end"], "Step": ["step"]}
    operator = Operator("range", inputs, {"Out": ["y"]})
    path = write_model(tmp_path, Program({"x": (1,)}, parameters, [operator], ["y"]))
    (result,) = evaluate(read_model(path).main, {"x": np.zeros(1, np.float32)}).values()
    assert result.dtype == ends.dtype
    np.testing.assert_allclose(result, np.arange(*ends.tolist()), rtol=1e-6)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (PaddleCase("while"), "not supported"),
        (PaddleCase("pool2d", {"ksize": [2, 2], "pooling_type": "lp"}), "with lp"),
        (PaddleCase("bilinear_interp_v2", {"scale": [1.3, 1.3]}), "not an integer"),
        (PaddleCase("nearest_interp_v2", {"interp_method": "bicubic"}), "bicubic is not"),
        (PaddleCase("pad3d", {"paddings": [1] * 4, "mode": "circular"}), "mode circular"),
    ],
)
def test_rejects_unsupported_operators_with_a_reason(
    case: PaddleCase, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=words):
        run_case(case, tmp_path)
