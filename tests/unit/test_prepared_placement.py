"""A prepared file has the placement of its model, whether it runs whole on the device or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_networks import small_onnx

import fourfold
from fourfold.device import DeviceInfo


@pytest.fixture
def prepared(device: DeviceInfo, tmp_path: Path) -> Path:
    model, file = tmp_path / "small.onnx", tmp_path / "small.fourfold"
    model.write_bytes(small_onnx())
    fourfold.prepare(model, file, devices=device.address, everywhere=False, cache=None)
    return file


def test_placement_of_a_prepared_model(prepared: Path, device: DeviceInfo) -> None:
    with fourfold.Session(prepared, device, cache=None) as session:
        assert session.origin == "file"
        assert session.placement.whole
        assert [part.target for part in session.placement.parts] == ["gpu"]
        assert str(session.placement).startswith("all ")


def test_placement_is_that_of_the_model_itself(prepared: Path, device: DeviceInfo) -> None:
    with (
        fourfold.Session(prepared, device, cache=None) as file,
        fourfold.Session(small_onnx(), device, cache=None) as model,
    ):
        assert file.placement.rows == model.placement.rows
        inputs = {one.name: np.ones(one.shape, one.dtype) for one in model.inputs}
        for name, array in model.run(inputs).items():
            np.testing.assert_array_equal(file.run(inputs)[name], array)
