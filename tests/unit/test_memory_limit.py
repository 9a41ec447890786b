"""`memory_limit` of a session applies to plans, to all shapes together, to prepared files and to
the cache.
"""

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


def test_session_uses_a_smaller_plan_below_the_limit(
    device: DeviceInfo, allocations: Allocations, caplog: pytest.LogCaptureFixture
) -> None:
    unlimited = fourfold.estimate(MODEL, device, precision="fp32", cache=None)
    limit = unlimited.total * 3 // 4
    with fourfold.Session(MODEL, device, "fp32", cache=None) as session:
        expected = session.run(image())["layer3"]
    before = len(allocations.sizes)
    with (
        caplog.at_level(logging.WARNING, "fourfold"),
        fourfold.Session(MODEL, device, "fp32", cache=None, memory_limit=limit) as session,
    ):
        np.testing.assert_allclose(session.run(image())["layer3"], expected, atol=1e-4)
        assert sum(allocations.sizes[before:]) <= limit
        limited = fourfold.estimate(MODEL, device, precision="fp32", cache=None, memory_limit=limit)
        assert limited.total == session.plan.device_bytes < unlimited.total
    assert "no kernels that trade memory" in caplog.text


@pytest.mark.parametrize("limit", ["1 kB", 1024])
def test_rejects_a_limit_that_no_plan_meets(device: DeviceInfo, limit: int | str) -> None:
    with pytest.raises(DeviceError, match="does not fit into memory_limit=1024"):
        fourfold.Session(MODEL, device, cache=None, memory_limit=limit)


def test_rejects_a_limit_that_is_no_size(device: DeviceInfo) -> None:
    with pytest.raises(InputError, match="memory_limit is 'much'"):
        fourfold.Session(matrix(), device, cache=None, memory_limit="much")


def test_environment_sets_the_memory_limit(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_MEMORY_LIMIT", "1k")
    with pytest.raises(DeviceError, match="memory_limit=1024"):
        fourfold.Session(MODEL, device, cache=None)
    with fourfold.Session(MODEL, device, cache=None, memory_limit="1 GB") as session:
        assert session.plan.device_bytes > 1024


def test_plans_are_cached_per_memory_limit(device: DeviceInfo, tmp_path: Path) -> None:
    unlimited = fourfold.estimate(MODEL, device, cache=tmp_path)
    limit = unlimited.total - 1
    origins, sizes = [], []
    for value in (None, limit, None, limit):
        with fourfold.Session(MODEL, device, cache=tmp_path, memory_limit=value) as session:
            origins.append(session.origin)
            sizes.append(session.plan.device_bytes)
    assert origins == ["store", "model", "store", "store"]
    assert sizes[::2] == [unlimited.total] * 2
    assert sizes[1] == sizes[3] <= limit


def test_all_shapes_together_stay_below_the_limit(
    device: DeviceInfo, allocations: Allocations
) -> None:
    sizes = {
        rows: fourfold.estimate(matrix(), device, shapes={"x": (rows, 4)}, cache=None).total
        for rows in (100, 200, 300)
    }
    limit = sizes[200] + sizes[300] - 1
    shape = {"x": (100, 4)}
    with fourfold.Session(
        matrix(), device, shapes=shape, cache=None, memory_limit=limit
    ) as session:
        for rows in (100, 200, 300, 100, 300, 200):
            session.resize(x=(rows, 4))
            x = numbers(rows, rows)
            np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-5)
            assert allocations.held <= limit
        with pytest.raises(DeviceError, match="does not fit"):
            session.resize(x=(3000, 4))
        np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-5)
    assert allocations.held == 0


def test_current_shape_is_restored_when_resize_fails(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = fourfold.estimate(matrix(), device, shapes={"x": (100, 4)}, cache=None).total
    with fourfold.Session(matrix(), device, cache=None, memory_limit=limit) as session:
        make, failed = fourfold.runtime.loading.start_player, []

        def fails_once(*arguments: object) -> object:
            if failed:
                return make(*arguments)  # type: ignore[arg-type]
            failed.append(True)
            raise DeviceError("the device failed", "the test injects it", "try again")

        monkeypatch.setattr("fourfold.runtime.loading.start_player", fails_once)
        with pytest.raises(DeviceError, match="the device failed"):
            session.resize(x=(100, 4))
        x = numbers(1)
        np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_selects_a_prepared_plan_below_the_limit(device: DeviceInfo, tmp_path: Path) -> None:
    model, file = tmp_path / "deep.onnx", tmp_path / "deep.fourfold"
    model.write_bytes(deep_onnx(layers=3, channels=32, size=160))
    for precision, add in (("fp32", []), ("mixed", ["--add"])):
        arguments = ["prepare", str(model), "-o", str(file), "--precision", precision, *add]
        result = CliRunner().invoke(main, [*arguments, "--device", device.address])
        assert result.exit_code == 0, result.output
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


def test_runs_in_flight_stay_below_the_limit(device: DeviceInfo, allocations: Allocations) -> None:
    actual = fourfold.estimate(matrix(), device, cache=None)
    each = actual.inputs + actual.outputs
    limit = actual.total + 2 * each
    inputs = [numbers(seed) for seed in range(9)]
    with fourfold.Session(matrix(), device, cache=None, memory_limit=limit) as session:
        futures = [session.run_async(x) for x in inputs]
        streamed = [*session.stream(iter(inputs), depth=7)]
        assert session._instance.device_share.bytes == limit
    for x, future, result in zip(inputs, futures, streamed, strict=True):
        np.testing.assert_allclose(future.result()["y"], x @ WEIGHTS.T, atol=1e-6)
        np.testing.assert_allclose(result["y"], x @ WEIGHTS.T, atol=1e-6)
    assert allocations.held == 0


def test_rejects_runs_in_flight_when_memory_is_too_small(device: DeviceInfo) -> None:
    limit = fourfold.estimate(matrix(), device, cache=None).total
    with fourfold.Session(matrix(), device, cache=None, memory_limit=limit) as session:
        with pytest.raises(DeviceError, match="a run in flight does not fit"):
            session.run_async(numbers(1)).result()
        np.testing.assert_allclose(session.run(numbers(1))["y"], numbers(1) @ WEIGHTS.T, atol=1e-6)
