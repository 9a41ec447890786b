"""Parts of Paddle programs run in Paddle Inference, where installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paddle_writer import Operator, Program, write_model
from stored_answers import numbers

from fourfold import Session
from fourfold.backends.cpu.registry import find_engine
from fourfold.device import DeviceInfo
from fourfold.errors import UnsupportedError
from fourfold.formats import ReadOptions, read_model
from fourfold.formats.paddle.reader import read_parameters, read_program
from fourfold.plan.targets import GPU

ENGINE = find_engine("paddle")
needs_paddle = pytest.mark.skipif(
    not ENGINE.installed(), reason="Paddle Inference is not installed"
)
X = numbers((2, 6))
WEIGHTS = numbers((6, 4), 3)
PLAIN = {"trans_x": False, "trans_y": False}


def program() -> Program:
    """Return a program with an unconverted operator between two converted ones."""
    operators = [
        Operator("matmul_v2", {"X": ["x"], "Y": ["w"]}, {"Out": ["a"]}, PLAIN),
        Operator("stanh", {"X": ["a"]}, {"Out": ["b"]}, {"scale_a": 0.5, "scale_b": 2.0}),
        Operator("relu6", {"X": ["b"]}, {"Out": ["y"]}, {"threshold": 6.0}),
    ]
    return Program({"x": (2, 6)}, {"w": WEIGHTS}, operators, ["b", "y"], {"b": (2, 4)})


def expected_output() -> np.ndarray:
    return np.asarray(2.0 * np.tanh(0.5 * (X @ WEIGHTS)))


def test_part_is_written_as_a_program(tmp_path: Path) -> None:
    """The written program contains only the parameters that it needs."""
    model = read_model(write_model(tmp_path, program()), ReadOptions(keep_unsupported=True))
    assert [node.op for node in model.main.nodes] == [
        "fully_connected",
        "identity",
        "foreign",
        "relu6",
    ]
    source = model.source_graph
    assert source is not None
    assert source.reads("a") == ("x",)
    content = source.write(["a", "b"], ["x"], ["b"])
    size = int.from_bytes(content[:8], "little")
    cut = read_program(content[8 : 8 + size])
    assert [one.type for one in cut.operators] == ["matmul_v2", "stanh"]
    assert (cut.feeds, [*cut.fetches], cut.parameters) == (("x",), ["b"], ("w",))
    held = read_parameters(content[8 + size :], cut.parameters)
    assert np.array_equal(held["w"], WEIGHTS)


def test_error_names_the_missing_engine(tmp_path: Path) -> None:
    if ENGINE.installed():
        pytest.skip("Paddle Inference is installed")
    with pytest.raises(UnsupportedError, match=r"stanh 'b'[\s\S]*pip install 'fourfold"):
        Session(write_model(tmp_path, program()), placement="gpu")


@needs_paddle
def test_unconverted_operators_run_in_paddle(tmp_path: Path, device: DeviceInfo) -> None:
    with Session(write_model(tmp_path, program()), device, placement="gpu") as session:
        targets = [row.target for row in session.placement.rows]
        outputs = session.run(X)
    assert targets == [GPU, "paddle", GPU]
    assert np.allclose(outputs["b"], expected_output(), atol=1e-5)
    assert np.allclose(outputs["y"], np.maximum(expected_output(), 0), atol=1e-5)


@needs_paddle
def test_entire_model_runs_in_paddle(tmp_path: Path) -> None:
    with Session(write_model(tmp_path, program()), device="cpu") as session:
        assert {row.target for row in session.placement.rows} == {"paddle"}
        assert np.allclose(session.run(X)["b"], expected_output(), atol=1e-5)


@needs_paddle
def test_computes_intermediate_values(tmp_path: Path) -> None:
    model = read_model(write_model(tmp_path, program()), ReadOptions(keep_unsupported=True))
    values = ENGINE.compute_values(model, [X])
    assert values.has("a")
    assert np.allclose(values.value("a"), X @ WEIGHTS, atol=1e-5)
    assert np.allclose(values.value("b"), expected_output(), atol=1e-5)


@needs_paddle
def test_runs_a_model_file(tmp_path: Path) -> None:
    run = ENGINE.open_model(str(write_model(tmp_path, program())), {"x": X}, 1)
    assert np.allclose(run()[0], expected_output(), atol=1e-5)


def detector() -> Program:
    """Return a detector whose non-maximum suppression has results of any size."""
    operators = [
        Operator("relu", {"X": ["boxes"]}, {"Out": ["b"]}),
        Operator("sigmoid", {"X": ["scores"]}, {"Out": ["s"]}),
        Operator(
            "multiclass_nms3",
            {"BBoxes": ["b"], "Scores": ["s"]},
            {"Out": ["found"], "Index": ["index"], "NmsRoisNum": ["count"]},
            {
                "background_label": -1,
                "score_threshold": 0.55,
                "nms_top_k": 10,
                "nms_threshold": 0.5,
                "nms_eta": 1.0,
                "keep_top_k": 5,
                "normalized": True,
            },
        ),
    ]
    inputs = {"boxes": (1, 8, 4), "scores": (1, 2, 8)}
    return Program(inputs, {}, operators, ["found", "count"], {"found": (-1, 6), "count": (-1,)})


@needs_paddle
def test_supports_data_dependent_shapes(tmp_path: Path, device: DeviceInfo) -> None:
    path = write_model(tmp_path, detector())
    corners = np.abs(numbers((1, 8, 2), 1))
    arrays = {
        "boxes": np.concatenate([corners, corners + np.float32(0.3)], axis=2),
        "scores": numbers((1, 2, 8), 2),
    }
    expected = ENGINE.open_model(str(path), arrays, 1)()
    with Session(path, device, placement="gpu") as session:
        outputs = session.run(arrays)
    assert 0 < len(expected[0]) < 16
    assert np.allclose(outputs["found"], expected[0], atol=1e-5)
