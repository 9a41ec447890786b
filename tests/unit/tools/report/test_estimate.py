"""An estimate equals the memory that a session allocates, to the byte, and nothing is run
for it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from allocations import Allocations
from click.testing import CliRunner
from small_networks import small_onnx
from stateful_models import stream
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends import discovery
from fourfold.backends.opencl import player as players
from fourfold.backends.opencl import program as programs
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError

MODELS = {"matrix": matrix(), "states": stream(), "onnx": small_onnx()}


@pytest.fixture
def allocations(monkeypatch: pytest.MonkeyPatch) -> Allocations:
    return Allocations(monkeypatch)


@pytest.fixture
def nothing_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object) -> None:
        raise AssertionError("a kernel was built, or a player made")

    monkeypatch.setattr(programs.cl.Program, "build", build)
    monkeypatch.setattr(players.Player, "__init__", build)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("name", MODELS)
def test_estimate_equals_the_memory_of_a_session(
    name: str, precision: str, device: DeviceInfo, allocations: Allocations
) -> None:
    found = fourfold.estimate(MODELS[name], device, precision=precision, cache=None)
    assert not allocations.sizes
    with fourfold.Session(MODELS[name], device, precision, cache=None) as session:  # type: ignore[arg-type]
        assert allocations.held == found.total
        assert max(allocations.sizes) == found.largest
        assert sum(allocations.constants) == found.weights
        assert found.precision == session.precision
        assert found.launches == len(session.plan.launches)
    assert found.states > 0 or name != "states"


def test_nothing_is_built(device: DeviceInfo, nothing_built: None) -> None:
    assert fourfold.estimate(matrix(), device, cache=None).total > 0


def test_shapes_count(device: DeviceInfo) -> None:
    one = fourfold.estimate(matrix(), device, shapes={"x": (64, 4)}, cache=None)
    other = fourfold.estimate(matrix(), device, shapes={"x": (128, 4)}, cache=None)
    assert (one.inputs, other.inputs) == (64 * 16, 128 * 16)
    assert (one.outputs, other.outputs) == (64 * 12, 128 * 12)
    assert other.flops == 2 * one.flops == 2 * 128 * 3 * 4  # type: ignore[operator]


def test_a_model_in_parts(device: DeviceInfo, allocations: Allocations) -> None:
    found = fourfold.estimate(matrix(), device, placement="cpu", cache=None)
    assert (found.total, found.cpu_parts, found.launches) == (0, 1, 0)
    assert found.host >= 3 * 4 * 4


def test_a_prepared_file_says_the_same(device: DeviceInfo, tmp_path: Path) -> None:
    model, file = tmp_path / "matrix.tflite", tmp_path / "matrix.fourfold"
    model.write_bytes(matrix())
    told = CliRunner().invoke(
        main, ["prepare", str(model), "-o", str(file), "--device", device.address]
    )
    assert told.exit_code == 0, told.output
    before, after = (fourfold.estimate(str(path), device, cache=None) for path in (model, file))
    assert before == after
    assert after.flops == 2 * 2 * 3 * 4


def test_a_gpu_of_no_make_needs_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[DeviceInfo, ...]:
        raise DeviceError("no OpenCL platform was found", "there is no driver", "install one")

    monkeypatch.setattr(discovery, "devices", none)
    monkeypatch.delenv("FOURFOLD_DEVICE", raising=False)
    asked, left_open = fourfold.estimate(matrix(), "null"), fourfold.estimate(matrix())
    assert asked == left_open
    assert (asked.device, asked.launches) == ("null", 1)
    with pytest.raises(DeviceError, match="no OpenCL platform"):
        fourfold.estimate(matrix(), "auto")


def test_errors_are_those_of_a_session(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="there is no precision"):
        fourfold.estimate(matrix(), device, precision="fp8")


def test_it_prints_itself_and_goes_into_json(tmp_path: Path) -> None:
    path = tmp_path / "matrix.tflite"
    path.write_bytes(matrix())
    found = fourfold.estimate(str(path), "null")
    lines = [line.split() for line in str(found).splitlines()]
    assert ["inputs", str(found.inputs), "bytes"] in lines
    assert ["arithmetic", "48", "FLOP"] in lines
    told = CliRunner().invoke(main, ["estimate", str(path), "--device", "null", "--json"])
    assert json.loads(told.output) == {"model": str(path), **found.to_json()}
    shown = CliRunner().invoke(main, ["estimate", str(path), "--device", "null"])
    assert shown.output.strip() == str(found)


def test_sessions_run_the_estimated_plan(device: DeviceInfo, tmp_path: Path) -> None:
    fourfold.estimate(matrix(), device, cache=tmp_path)
    with fourfold.Session(matrix(), device, cache=tmp_path) as session:
        assert session.origin == "store"  # the plan that was compiled for the estimate
        np.testing.assert_allclose(session.run(numbers(1))["y"], numbers(1) @ WEIGHTS.T, atol=1e-6)
