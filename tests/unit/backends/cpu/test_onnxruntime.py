"""ONNX Runtime as a CPU engine: parts of ONNX models, entire models, and fallbacks without it."""

from __future__ import annotations

import os
import subprocess
import sys
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
UNSUPPORTED_OP = "Det"  # only ONNX Runtime supports it
W = np.linspace(-1, 1, 36, dtype=np.float32).reshape(2, 2, 3, 3)


def mixed_model(last: str = "Relu") -> bytes:
    """Return a convolution, an operator that only ONNX Runtime supports, and one more operator."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 0]),
        node(UNSUPPORTED_OP, ["c"], ["d"]),
        node(last, ["d"], ["y"]),
    ]
    result = graph(nodes, [("x", "float", (1, 2, 3, 4))], [("y", "float", (1, 2))], {"w": W})
    result.value_info.append(value("d", "float", (1, 2)))  # type: ignore[attr-defined]
    return model(result)


def run_onnx_runtime(content: bytes, *arrays: np.ndarray) -> list[np.ndarray]:
    session = inference.open_session(content, 1)
    names = [port.name for port in session.get_inputs()]
    outputs: list[np.ndarray] = session.run(None, dict(zip(names, arrays, strict=True)))
    return outputs


def test_splits_between_gpu_and_onnx_runtime(device: DeviceInfo) -> None:
    with fourfold.Session(mixed_model(), device, cache=None, placement="gpu") as session:
        targets = {row.name: row.target for row in session.placement.rows}
        assert targets["d"] == "onnxruntime"
        assert targets["c"] == GPU
        assert np.allclose(session.run(X)["y"], run_onnx_runtime(mixed_model(), X)[0], atol=1e-5)


def test_runs_entire_models_on_the_cpu() -> None:
    with fourfold.Session(mixed_model(), "cpu", cache=None) as session:
        assert np.allclose(session.run(X)["y"], run_onnx_runtime(mixed_model(), X)[0], atol=1e-6)
        assert np.allclose(session.run({"x": X})["y"], session.run([X])["y"])


def test_supports_data_dependent_shapes(device: DeviceInfo) -> None:
    nodes = [node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["y"], to=1)]
    content = model(graph(nodes, [("x", "float", (3, 4))], [("y", "float", None)]))
    x = (np.arange(12).reshape(3, 4) % 3).astype(np.float32)
    with fourfold.Session(content, device, cache=None) as session:
        for array in (x, np.eye(3, 4, dtype=np.float32)):
            assert np.array_equal(session.run(array)["y"], run_onnx_runtime(content, array)[0])


def test_infers_types_that_the_file_does_not_declare(device: DeviceInfo) -> None:
    """The file has no type for 'b', but the operator after it still runs on the device."""
    nodes = [node("BitwiseNot", ["i"], ["b"]), node("Cast", ["b"], ["y"], to=1)]
    nodes.insert(0, node("Cast", ["x"], ["i"], to=6))
    content = model(graph(nodes, [("x", "float", (3, 4))], [("y", "float", None)]), opset=18)
    x = X.reshape(-1)[:12].reshape(3, 4)
    with fourfold.Session(content, device, cache=None, placement="gpu") as session:
        assert {row.name: row.target for row in session.placement.rows}["y"] == GPU
        assert np.array_equal(session.run(x)["y"], run_onnx_runtime(content, x)[0])


def loop_model() -> bytes:
    """Return a loop that doubles a value five times."""
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


def test_loops_run_in_onnx_runtime(device: DeviceInfo) -> None:
    x = X.reshape(-1)[:12].reshape(3, 4)
    with fourfold.Session(loop_model(), device, cache=None) as session:
        assert np.allclose(session.run(x)["y"], -32 * np.maximum(x, 0))
        reasons = {row.name: row.reason for row in session.placement.rows}
    assert "loops are not unrolled" in reasons["d"]


def test_fp16_values_cross_between_parts(device: DeviceInfo) -> None:
    half = X.astype(np.float16)
    nodes = [node("Mul", ["x", "x"], ["s"]), node(UNSUPPORTED_OP, ["f"], ["y"])]
    nodes.insert(1, node("Cast", ["s"], ["f"], to=1))
    ports = [("x", "float16", (1, 2, 4, 4))], [("y", "float", (1, 2))]
    content = model(graph(nodes, *ports))
    x = np.resize(half, (1, 2, 4, 4))
    with fourfold.Session(content, device, cache=None) as session:
        assert np.allclose(session.run(x)["y"], run_onnx_runtime(content, x)[0], atol=0.05)


def test_finds_intermediate_values_by_name() -> None:
    read = read_model(mixed_model(), ReadOptions(keep_unsupported=True))
    values = ENGINE.compute_values(read, [X])
    assert values.has("c")
    assert not values.has("c/image")
    # Values are those of the original graph, which ONNX Runtime by default optimizes.
    assert np.allclose(values.value("y"), run_onnx_runtime(mixed_model(), X)[0], atol=1e-5)


def test_verify_compares_with_onnx_runtime(tmp_path: Path, device: DeviceInfo) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(mixed_model())
    result = CliRunner().invoke(main, ["verify", str(path), "--device", device.name])
    assert result.exit_code == 0, result.output
    assert "ONNX Runtime" in result.output


def test_error_without_onnx_runtime_contains_the_install_command(
    monkeypatch: pytest.MonkeyPatch, device: DeviceInfo
) -> None:
    monkeypatch.setattr(inference, "runtime", lambda: None)
    with pytest.raises(UnsupportedError) as raised:
        fourfold.Session(mixed_model(), device, cache=None)
    assert "pip install 'fourfold[onnx]'" in raised.value.fix
    assert "ONNX Runtime is not installed" in str(raised.value)


def test_supported_models_run_without_onnx_runtime(
    monkeypatch: pytest.MonkeyPatch, device: DeviceInfo
) -> None:
    monkeypatch.setattr(inference, "runtime", lambda: None)
    content = model(
        graph([node("Relu", ["x"], ["y"])], [("x", "float", (3, 4))], [("y", "float", None)])
    )
    x = X.reshape(-1)[:12].reshape(3, 4)
    with fourfold.Session(content, device, cache=None) as session:
        assert np.array_equal(session.run(x)["y"], np.maximum(x, 0))


def test_rejects_operators_that_onnx_runtime_lacks(device: DeviceInfo) -> None:
    nodes: list[Any] = [helper.make_node("Unheard", ["x"], ["y"], domain="nowhere")]
    result = helper.make_model(
        graph(nodes, [("x", "float", (3,))], [("y", "float", (3,))]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)],
        ir_version=9,
    )
    with pytest.raises(FourfoldError, match="ONNX Runtime cannot run it"):
        fourfold.Session(result.SerializeToString(), device, cache=None)


@pytest.mark.parametrize(("setting", "is_quiet"), [(None, True), ("1", True), ("0", False)])
def test_telemetry_is_off_unless_the_user_turns_it_on(
    setting: str | None, is_quiet: bool, tmp_path: Path
) -> None:
    """With telemetry, ONNX Runtime writes files when it is imported."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    for folder in (home, temporary):
        folder.mkdir()
    moved = ("HOME", "XDG_CACHE_HOME", "TMPDIR", "ORT_DISABLE_TELEMETRY", "CI")
    kept = {name: value for name, value in os.environ.items() if name not in moved}
    chosen = {} if setting is None else {"ORT_DISABLE_TELEMETRY": setting}
    script = "from fourfold.backends.cpu.onnxruntime import ENGINE; assert ENGINE.installed()"
    subprocess.run(
        [sys.executable, "-c", script],
        env={**kept, "HOME": str(home), "TMPDIR": str(temporary), **chosen},
        check=True,
    )
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not files or not is_quiet
