"""memory_limit= of a session: kept on the device, by all shapes together, by files and stores."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from allocations import Allocations
from click.testing import CliRunner
from small_networks import deep_onnx
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError

MODEL = deep_onnx(layers=4, channels=32, size=14)


@pytest.fixture
def allocations(monkeypatch: pytest.MonkeyPatch) -> Allocations:
    return Allocations(monkeypatch)


def image() -> np.ndarray:
    return np.random.default_rng(2).uniform(-1, 1, (1, 14, 14, 32)).astype(np.float32)


def test_a_smaller_plan_keeps_it(
    device: DeviceInfo, allocations: Allocations, caplog: pytest.LogCaptureFixture
) -> None:
    usual = fourfold.estimate(MODEL, device, precision="fp32", cache=None)
    limit = usual.total * 3 // 4
    with fourfold.Session(MODEL, device, "fp32", cache=None) as session:
        expected = session.run(image())["layer3"]
    before = len(allocations.sizes)
    with (
        caplog.at_level(logging.WARNING, "fourfold"),
        fourfold.Session(MODEL, device, "fp32", cache=None, memory_limit=limit) as session,
    ):
        np.testing.assert_allclose(session.run(image())["layer3"], expected, atol=1e-4)
        assert sum(allocations.sizes[before:]) <= limit
        told = fourfold.estimate(MODEL, device, precision="fp32", cache=None, memory_limit=limit)
        assert told.total == session.plan.device_bytes < usual.total
    assert "no kernels that trade memory" in caplog.text


@pytest.mark.parametrize("limit", ["1 kB", 1024])
def test_a_limit_that_no_plan_keeps(device: DeviceInfo, limit: int | str) -> None:
    with pytest.raises(DeviceError, match="does not fit into memory_limit=1024"):
        fourfold.Session(MODEL, device, cache=None, memory_limit=limit)


def test_a_limit_is_a_size(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="memory_limit is 'much'"):
        fourfold.Session(matrix(), device, cache=None, memory_limit="much")


def test_the_environment_sets_it(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_MEMORY_LIMIT", "1k")
    with pytest.raises(DeviceError, match="memory_limit=1024"):
        fourfold.Session(MODEL, device, cache=None)
    with fourfold.Session(MODEL, device, cache=None, memory_limit="1 GB") as session:
        assert session.plan.device_bytes > 1024


def test_what_is_kept_is_kept_by_limit(device: DeviceInfo, tmp_path: Path) -> None:
    usual = fourfold.estimate(MODEL, device, cache=tmp_path)
    limit = usual.total - 1
    origins, sizes = [], []
    for given in (None, limit, None, limit):
        with fourfold.Session(MODEL, device, cache=tmp_path, memory_limit=given) as session:
            origins.append(session.origin)
            sizes.append(session.plan.device_bytes)
    assert origins == ["store", "model", "store", "store"]
    assert sizes[::2] == [usual.total] * 2
    assert sizes[1] == sizes[3] <= limit


def test_all_shapes_together_keep_it(device: DeviceInfo, allocations: Allocations) -> None:
    sizes = {
        rows: fourfold.estimate(matrix(), device, shapes={"x": (rows, 4)}, cache=None).total
        for rows in (100, 200, 300)
    }
    limit = sizes[200] + sizes[300] - 1
    shape = {"x": (100, 4)}
    with fourfold.Session(matrix(), device, shapes=shape, cache=None, memory_limit=limit) as made:
        for rows in (100, 200, 300, 100, 300, 200):
            made.resize(x=(rows, 4))
            x = numbers(rows, rows)
            np.testing.assert_allclose(made.run(x)["y"], x @ WEIGHTS.T, atol=1e-5)
            assert allocations.held <= limit
        with pytest.raises(DeviceError, match="does not fit"):
            made.resize(x=(3000, 4))
        np.testing.assert_allclose(made.run(x)["y"], x @ WEIGHTS.T, atol=1e-5)
    assert allocations.held == 0


def test_the_current_shape_comes_back_where_another_fails(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = fourfold.estimate(matrix(), device, shapes={"x": (100, 4)}, cache=None).total
    with fourfold.Session(matrix(), device, cache=None, memory_limit=limit) as made:
        make, failed = fourfold.runtime.loading.start_player, []

        def fails_once(*arguments: object) -> object:
            if failed:
                return make(*arguments)  # type: ignore[arg-type]
            failed.append(True)
            raise DeviceError("the device failed", "it was asked to", "ask again")

        monkeypatch.setattr("fourfold.runtime.loading.start_player", fails_once)
        with pytest.raises(DeviceError, match="the device failed"):
            made.resize(x=(100, 4))
        x = numbers(1)
        np.testing.assert_allclose(made.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_of_a_prepared_file_a_plan_that_keeps_it(device: DeviceInfo, tmp_path: Path) -> None:
    model, file = tmp_path / "deep.onnx", tmp_path / "deep.fourfold"
    model.write_bytes(deep_onnx(layers=3, channels=32, size=160))
    for precision, add in (("fp32", []), ("mixed", ["--add"])):
        arguments = ["prepare", str(model), "-o", str(file), "--precision", precision, *add]
        told = CliRunner().invoke(main, [*arguments, "--device", device.address])
        assert told.exit_code == 0, told.output
    large = fourfold.estimate(str(file), device, precision="fp32").total
    small = fourfold.estimate(str(file), device, precision="mixed").total
    assert small < large
    with fourfold.Session(str(file), device, memory_limit=large) as session:
        assert session.precision == "fp32"
    with fourfold.Session(str(file), device, memory_limit=large - 1) as session:
        assert session.precision == "mixed"
    with pytest.raises(DeviceError, match=r"no plan in .* fits into memory_limit") as refused:
        fourfold.Session(str(file), device, "fp32", memory_limit=small - 1)
    assert "needs" in refused.value.why


def test_runs_in_flight_keep_it(device: DeviceInfo, allocations: Allocations) -> None:
    found = fourfold.estimate(matrix(), device, cache=None)
    each = found.inputs + found.outputs
    limit = found.total + 2 * each
    inputs = [numbers(seed) for seed in range(9)]
    with fourfold.Session(matrix(), device, cache=None, memory_limit=limit) as session:
        futures = [session.run_async(x) for x in inputs]
        streamed = [*session.stream(iter(inputs), depth=7)]
        assert session._instance.device_share.bytes == limit
    for x, future, result in zip(inputs, futures, streamed, strict=True):
        np.testing.assert_allclose(future.result()["y"], x @ WEIGHTS.T, atol=1e-6)
        np.testing.assert_allclose(result["y"], x @ WEIGHTS.T, atol=1e-6)
    assert allocations.held == 0


def test_without_room_for_one_run_in_flight_that_is_said(device: DeviceInfo) -> None:
    limit = fourfold.estimate(matrix(), device, cache=None).total
    with fourfold.Session(matrix(), device, cache=None, memory_limit=limit) as session:
        with pytest.raises(DeviceError, match="a run in flight does not fit"):
            session.run_async(numbers(1)).result()
        np.testing.assert_allclose(session.run(numbers(1))["y"], numbers(1) @ WEIGHTS.T, atol=1e-6)
