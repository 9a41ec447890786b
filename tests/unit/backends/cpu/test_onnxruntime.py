"""ONNX Runtime as a CPU engine: parts of ONNX models, whole ones, and doing without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx_writer import graph, helper, model, node, value

import fourfold
from fourfold.backends.cpu.onnxruntime import ENGINE, inference
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError, UnsupportedError
from fourfold.formats import ReadOptions, read_model
from fourfold.plan.targets import GPU

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(1, 2, 3, 4)
ONLY_THERE = "Det"  # an operator that has no rule here
W = np.linspace(-1, 1, 36, dtype=np.float32).reshape(2, 2, 3, 3)


def mixed(last: str = "Relu") -> bytes:
    """A convolution, what only ONNX Runtime knows, and one more operator."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 0]),
        node(ONLY_THERE, ["c"], ["d"]),
        node(last, ["d"], ["y"]),
    ]
    made = graph(nodes, [("x", "float", (1, 2, 3, 4))], [("y", "float", (1, 2))], {"w": W})
    made.value_info.append(value("d", "float", (1, 2)))  # type: ignore[attr-defined]
    return model(made)


def by_itself(content: bytes, *arrays: np.ndarray) -> list[np.ndarray]:
    session = inference.open_session(content, 1)
    names = [port.name for port in session.get_inputs()]
    found: list[np.ndarray] = session.run(None, dict(zip(names, arrays, strict=True)))
    return found


def test_parts_go_where_they_can_run(device: DeviceInfo) -> None:
    with fourfold.Session(mixed(), device, cache=None, placement="gpu") as session:
        targets = {row.name: row.target for row in session.placement.rows}
        assert targets["d"] == "onnxruntime"
        assert targets["c"] == GPU
        assert np.allclose(session.run(X)["y"], by_itself(mixed(), X)[0], atol=1e-5)


def test_all_of_it_can_stay_on_the_cpu() -> None:
    with fourfold.Session(mixed(), "cpu", cache=None) as session:
        assert np.allclose(session.run(X)["y"], by_itself(mixed(), X)[0], atol=1e-6)
        assert np.allclose(session.run({"x": X})["y"], session.run([X])["y"])


def test_sizes_that_only_a_run_knows(device: DeviceInfo) -> None:
    nodes = [node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["y"], to=1)]
    content = model(graph(nodes, [("x", "float", (3, 4))], [("y", "float", None)]))
    x = (np.arange(12).reshape(3, 4) % 3).astype(np.float32)
    with fourfold.Session(content, device, cache=None) as session:
        for array in (x, np.eye(3, 4, dtype=np.float32)):
            assert np.array_equal(session.run(array)["y"], by_itself(content, array)[0])


def test_sizes_that_follow_from_the_operator(device: DeviceInfo) -> None:
    """The file does not say what type 'b' has; what comes behind it still runs on the device."""
    nodes = [node("BitwiseNot", ["i"], ["b"]), node("Cast", ["b"], ["y"], to=1)]
    nodes.insert(0, node("Cast", ["x"], ["i"], to=6))
    content = model(graph(nodes, [("x", "float", (3, 4))], [("y", "float", None)]), opset=18)
    x = X.reshape(-1)[:12].reshape(3, 4)
    with fourfold.Session(content, device, cache=None, placement="gpu") as session:
        assert {row.name: row.target for row in session.placement.rows}["y"] == GPU
        assert np.array_equal(session.run(x)["y"], by_itself(content, x)[0])


def loop() -> bytes:
    """A loop that doubles a value five times."""
    body = helper.make_graph(
        [node("Add", ["v", "v"], ["v2"]), node("Identity", ["go"], ["go2"])],
        "body",
        [value("i", "int64", ()), value("go", "bool", ()), value("v", "float", (3, 4))],
        [value("go2", "bool", ()), value("v2", "float", (3, 4))],
    )
    nodes = [
        node("Relu", ["x"], ["r"]),
        helper.make_node("Loop", ["times", "", "r"], ["d"], body=body),
        node("Neg", ["d"], ["y"]),
    ]
    constants = {"times": np.array(5)}
    return model(graph(nodes, [("x", "float", (3, 4))], [("y", "float", (3, 4))], constants))


def test_loops_run_there(device: DeviceInfo) -> None:
    x = X.reshape(-1)[:12].reshape(3, 4)
    with fourfold.Session(loop(), device, cache=None) as session:
        assert np.allclose(session.run(x)["y"], -32 * np.maximum(x, 0))
        reasons = {row.name: row.reason for row in session.placement.rows}
    assert "loops are not unrolled" in reasons["d"]


def test_half_floats_cross_the_edge(device: DeviceInfo) -> None:
    half = X.astype(np.float16)
    nodes = [node("Mul", ["x", "x"], ["s"]), node(ONLY_THERE, ["f"], ["y"])]
    nodes.insert(1, node("Cast", ["s"], ["f"], to=1))
    ends = [("x", "float16", (1, 2, 4, 4))], [("y", "float", (1, 2))]
    content = model(graph(nodes, *ends))
    x = np.resize(half, (1, 2, 4, 4))
    with fourfold.Session(content, device, cache=None) as session:
        assert np.allclose(session.run(x)["y"], by_itself(content, x)[0], atol=0.05)


def test_values_are_found_by_name() -> None:
    read = read_model(mixed(), ReadOptions(keep_unsupported=True))
    values = ENGINE.compute_values(read, [X])
    assert values.has("c")
    assert not values.has("c/image")
    # They are those of the graph as it is, which ONNX Runtime by itself rewrites.
    assert np.allclose(values.value("y"), by_itself(mixed(), X)[0], atol=1e-5)


def test_verify_compares_with_it(tmp_path: Path, device: DeviceInfo) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(mixed())
    found = CliRunner().invoke(main, ["verify", str(path), "--device", device.name])
    assert found.exit_code == 0, found.output
    assert "ONNX Runtime" in found.output


def test_without_it_there_is_one_message(
    monkeypatch: pytest.MonkeyPatch, device: DeviceInfo
) -> None:
    monkeypatch.setattr(inference, "runtime", lambda: None)
    with pytest.raises(UnsupportedError) as raised:
        fourfold.Session(mixed(), device, cache=None)
    assert "pip install 'fourfold[onnx]'" in raised.value.fix
    assert "ONNX Runtime is not installed" in str(raised.value)


def test_without_it_the_rest_runs(monkeypatch: pytest.MonkeyPatch, device: DeviceInfo) -> None:
    monkeypatch.setattr(inference, "runtime", lambda: None)
    content = model(
        graph([node("Relu", ["x"], ["y"])], [("x", "float", (3, 4))], [("y", "float", None)])
    )
    x = X.reshape(-1)[:12].reshape(3, 4)
    with fourfold.Session(content, device, cache=None) as session:
        assert np.array_equal(session.run(x)["y"], np.maximum(x, 0))


def test_what_it_does_not_know_runs_nowhere(device: DeviceInfo) -> None:
    nodes: list[Any] = [helper.make_node("Unheard", ["x"], ["y"], domain="nowhere")]
    made = helper.make_model(
        graph(nodes, [("x", "float", (3,))], [("y", "float", (3,))]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)],
        ir_version=9,
    )
    with pytest.raises(FourfoldError, match="ONNX Runtime cannot run it"):
        fourfold.Session(made.SerializeToString(), device, cache=None)
