"""Parts of Paddle programs run in Paddle Inference, where that is installed."""

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
    """An operator that nobody converts between two that everybody does."""
    operators = [
        Operator("matmul_v2", {"X": ["x"], "Y": ["w"]}, {"Out": ["a"]}, PLAIN),
        Operator("stanh", {"X": ["a"]}, {"Out": ["b"]}, {"scale_a": 0.5, "scale_b": 2.0}),
        Operator("relu6", {"X": ["b"]}, {"Out": ["y"]}, {"threshold": 6.0}),
    ]
    return Program({"x": (2, 6)}, {"w": WEIGHTS}, operators, ["b", "y"], {"b": (2, 4)})


def right() -> np.ndarray:
    return np.asarray(2.0 * np.tanh(0.5 * (X @ WEIGHTS)))


def test_a_part_is_a_program_of_its_own(tmp_path: Path) -> None:
    """What is cut out reads as a program with the parameters that it needs, and no others."""
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


def test_what_is_refused_names_the_engine(tmp_path: Path) -> None:
    if ENGINE.installed():
        pytest.skip("Paddle Inference is installed")
    with pytest.raises(UnsupportedError, match=r"stanh 'b'[\s\S]*pip install 'fourfold"):
        Session(write_model(tmp_path, program()), placement="gpu")


@needs_paddle
def test_what_is_not_converted_runs_in_paddle(tmp_path: Path, device: DeviceInfo) -> None:
    with Session(write_model(tmp_path, program()), device, placement="gpu") as session:
        targets = [row.target for row in session.placement.rows]
        found = session.run(X)
    assert targets == [GPU, "paddle", GPU]
    assert np.allclose(found["b"], right(), atol=1e-5)
    assert np.allclose(found["y"], np.maximum(right(), 0), atol=1e-5)


@needs_paddle
def test_a_whole_model_runs_in_paddle(tmp_path: Path) -> None:
    with Session(write_model(tmp_path, program()), device="cpu") as session:
        assert {row.target for row in session.placement.rows} == {"paddle"}
        assert np.allclose(session.run(X)["b"], right(), atol=1e-5)


@needs_paddle
def test_all_values_of_a_model(tmp_path: Path) -> None:
    model = read_model(write_model(tmp_path, program()), ReadOptions(keep_unsupported=True))
    values = ENGINE.compute_values(model, [X])
    assert values.has("a")
    assert np.allclose(values.value("a"), X @ WEIGHTS, atol=1e-5)
    assert np.allclose(values.value("b"), right(), atol=1e-5)


@needs_paddle
def test_a_file_runs_as_a_whole(tmp_path: Path) -> None:
    run = ENGINE.open_model(str(write_model(tmp_path, program())), {"x": X}, 1)
    assert np.allclose(run()[0], right(), atol=1e-5)


def detector() -> Program:
    """Boxes and scores that are computed here, and a suppression whose results have any size."""
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
def test_results_whose_size_paddle_alone_knows(tmp_path: Path, device: DeviceInfo) -> None:
    path = write_model(tmp_path, detector())
    corners = np.abs(numbers((1, 8, 2), 1))
    arrays = {
        "boxes": np.concatenate([corners, corners + np.float32(0.3)], axis=2),
        "scores": numbers((1, 2, 8), 2),
    }
    expected = ENGINE.open_model(str(path), arrays, 1)()
    with Session(path, device, placement="gpu") as session:
        found = session.run(arrays)
    assert 0 < len(expected[0]) < 16
    assert np.allclose(found["found"], expected[0], atol=1e-5)
