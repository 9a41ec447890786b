"""A model that leaves sizes of inputs open is opened at once, and compiled when they are known."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx_writer import graph, node, small_model
from onnx_writer import model as model_of_nodes

import fourfold
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import InputError

UNKNOWN = ("x", "float", None)  # without sizes
MODEL = small_model("Relu", {"x": ("batch", 3, "height", "width")})


def test_session_opens_without_shapes(device: DeviceInfo) -> None:
    with fourfold.Session(MODEL, device, cache=None) as session:
        (info,) = session.inputs
        assert (info.name, info.shape, info.dtype) == ("x", (-1, 3, -1, -1), np.float32)
        assert info.type_text == "float32[?, 3, ?, ?]"
        assert session.outputs == ()
        assert "not compiled yet" in repr(session)
        assert "not compiled yet" not in session._repr_html_()
        for ask in (lambda: session.placement, lambda: session.plan, lambda: session.compiled):
            with pytest.raises(InputError, match="not compiled yet") as caught:
                ask()
            assert "x float32[?, 3, ?, ?]" in caught.value.why


def test_runs_compile_the_model_for_their_shapes(device: DeviceInfo) -> None:
    random = np.random.default_rng(7)
    with fourfold.Session(MODEL, device, cache=None) as session:
        for shape in ((1, 3, 5, 7), (2, 3, 5, 7), (1, 3, 11, 2)):
            x = random.uniform(-1, 1, shape).astype(np.float32)
            np.testing.assert_array_equal(session.run(x)["y"], np.maximum(x, 0))
            assert session.outputs[0].shape == shape
        assert session.placement.whole


def test_resize_compiles_the_model(device: DeviceInfo) -> None:
    with fourfold.Session(MODEL, device, cache=None) as session:
        session.resize(x=(1, 3, 4, 6))
        assert session.plan.launches
        assert session.inputs[0].shape == (1, 3, 4, 6)


def test_shapes_compile_the_model_ahead(device: DeviceInfo) -> None:
    with fourfold.Session(MODEL, device, shapes={"x": (1, 3, 4, 6)}, cache=None) as session:
        assert session.outputs[0].shape == (1, 3, 4, 6)


def test_wrong_arrays_leave_the_session_open(device: DeviceInfo) -> None:
    with fourfold.Session(MODEL, device, cache=None) as session:
        with pytest.raises(InputError, match="has shape"):
            session.run(np.zeros((1, 4, 5, 7), np.float32))  # it has four channels
        assert session.run(np.zeros((1, 3, 5, 7), np.float32))["y"].shape == (1, 3, 5, 7)


def test_an_open_session_is_pickled_and_copied(device: DeviceInfo, tmp_path: Path) -> None:
    with fourfold.Session(MODEL, device, cache=None) as session:
        again = pickle.loads(pickle.dumps(session))
        assert again.inputs == session.inputs
        again.close()


def test_an_input_of_unknown_rank_needs_a_shape(device: DeviceInfo) -> None:
    model = model_of_nodes(graph([node("Relu", ["x"], ["y"])], [UNKNOWN], [("y", "float", None)]))
    with pytest.raises(InputError, match="the shape of input 'x' is needed"):
        fourfold.Session(model, device, cache=None)


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("check", "--device", "null"), "this report is for x=1,3,224,224"),
        (("estimate", "--device", "null"), "this report is for x=1,3,224,224"),
        (("inspect",), "this command uses --shape x=1,3,224,224"),
        (("explain",), "this command uses --shape x=1,3,224,224"),
    ],
)
def test_commands_take_an_example_and_say_which(
    words: tuple[str, ...], note: str, tmp_path: Path
) -> None:
    path = tmp_path / "open.onnx"
    path.write_bytes(MODEL)
    result = CliRunner().invoke(main, [words[0], str(path), *words[1:]])
    assert result.exit_code == 0, result.output
    assert f"leaves input sizes open; {note}" in " ".join(result.output.split())


@pytest.mark.parametrize("report_on", [fourfold.check, fourfold.estimate])
def test_reports_take_an_example_and_say_which(report_on: Callable[..., Any]) -> None:
    report = report_on(MODEL, device="null")
    assert report.example_shapes == {"x": (1, 3, 224, 224)}
    assert report.to_json()["example_shapes"] == {"x": [1, 3, 224, 224]}
    assert "this report is for x=1,3,224,224" in str(report)
    assert "this report is for x=1,3,224,224" in report._repr_html_()


def test_an_example_has_the_same_batch_in_all_inputs() -> None:
    model = small_model("Add", {"x": ("batch", 3, "width"), "state": (2, "batch", 3, 1)})
    report = fourfold.check(model, device="null")
    assert report.example_shapes == {"x": (1, 3, 224), "state": (2, 1, 3, 1)}


@pytest.mark.parametrize("report_on", [fourfold.check, fourfold.estimate])
def test_reports_prefer_stated_shapes(report_on: Callable[..., Any]) -> None:
    report = report_on(MODEL, device="null", shapes={"x": (1, 3, 5, 7)})
    assert report.example_shapes == {}
    assert "this report is for" not in str(report)


@pytest.mark.needs_device
@pytest.mark.parametrize("command", ["prepare", "optimize"])
def test_commands_that_write_a_model_ask_for_a_shape(command: str, tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    path.write_bytes(MODEL)
    words = [command, str(path), "-o", str(tmp_path / "out.fourfold")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code != 0
    assert "or --shape x=1,3,224,224" in result.output
    again = CliRunner().invoke(main, [*words, "--shape", "x=1,3,5,7"])
    assert again.exit_code == 0, again.output


@pytest.mark.needs_device
def test_run_takes_the_shape_of_a_given_array(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    path.write_bytes(MODEL)
    np.save(tmp_path / "x.npy", np.ones((1, 3, 5, 7), np.float32))
    words = ["run", str(path), "--input", f"x={tmp_path / 'x.npy'}", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "--shape x=1,3,5,7" in result.stderr
