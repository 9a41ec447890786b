"""Prepared files of optimized models run on devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_networks import small_network, small_onnx

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.device import DeviceInfo

IMAGE = np.random.default_rng(4).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return path


def test_a_model_that_is_not_changed_is_prepared_as_it_is(model: Path, device: DeviceInfo) -> None:
    output = model.with_name("out.fourfold")
    report = fourfold.optimize(model, output, device=device, verify=[IMAGE])
    assert report.agrees
    assert report.models[0].written_as == ""
    assert report.prepared[0]["device"] == device.name
    with fourfold.Session(output, device, cache=None) as session:
        found = session.run({"image": IMAGE})
    assert np.allclose(
        found["scores"], evaluate(small_network(), {"image": IMAGE})["scores"], atol=1e-4
    )


def test_a_cut_model_is_written_and_then_prepared(model: Path, device: DeviceInfo) -> None:
    output = model.with_name("out.fourfold")
    report = fourfold.optimize(
        model, output, outputs=["features/channels_first"], device=device, verify=1
    )
    assert report.agrees
    assert report.models[0].written_as == "ONNX"
    with fourfold.Session(output, device, cache=None) as session:
        assert [info.name for info in session.outputs] == ["features/channels_first"]
        assert session.outputs[0].shape == (1, 4, 3, 4)


def test_nothing_runs_on_a_device_that_is_no_target(model: Path, device: DeviceInfo) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    output = model.with_name("out.fourfold")
    report = fourfold.optimize(model, output, targets=["cpu"], device=device, verify=[IMAGE])
    assert report.agrees
    assert report.prepared[0]["launches"] == 0
    with fourfold.Session(output, device, cache=None) as session:
        assert session.placement.on_gpu == 0


def test_several_models_go_into_one_file(model: Path, device: DeviceInfo) -> None:
    other = model.with_name("other.onnx")
    fourfold.optimize(model, other, outputs=["scores"], device=device)
    output = model.with_name("out.fourfold")
    report = fourfold.optimize([model, other], output, device=device, verify=[IMAGE])
    assert [one.name for one in report.models] == ["small", "other"]
    assert report.agrees
    with fourfold.Session(output, device, model="other", cache=None) as session:
        assert [info.name for info in session.outputs] == ["scores"]


def test_a_precision_is_that_of_the_plans(model: Path, device: DeviceInfo) -> None:
    output = model.with_name("out.fourfold")
    report = fourfold.optimize(model, output, precision="mixed", device=device)
    assert {row["precision"] for row in report.prepared} == {"mixed"}


def test_an_interruption_leaves_the_file_as_it_was(model: Path, device: DeviceInfo) -> None:
    output = model.with_name("out.fourfold")
    fourfold.optimize(model, output, device=device)
    before = output.read_bytes()

    def interrupt(done: int, total: int, title: str, left: float) -> None:
        if title == "inline_pointwise":  # the last step before plans are made
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fourfold.optimize(model, output, outputs=["scores"], device=device, progress=interrupt)
    assert output.read_bytes() == before
    assert sorted(path.name for path in model.parent.iterdir()) == ["out.fourfold", "small.onnx"]
