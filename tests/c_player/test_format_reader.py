"""Checks that a reader written from the file format page alone runs prepared files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_player.test_equal_results import FILES, QUICK, draw
from model_collection import or_skipped
from stateful_models import stream

import fourfold
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.tools.prepare import prepare_model

pytest.importorskip("pyopencl")
pytestmark = pytest.mark.filterwarnings("ignore:Non-empty compiler output")
MODELS = or_skipped(path for path in FILES if path.stem in QUICK[:2])


def prepared(model: Path, device: DeviceInfo, path: Path, launches: str) -> Path:
    draft = Draft()
    prepare_model(draft, model, device, CompileOptions(launches=launches), {})
    draft.write(path)
    return path


@pytest.mark.parametrize("launches", ["list", "one"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.stem)
def test_models(device: DeviceInfo, model: Path, launches: str, tmp_path: Path) -> None:
    from c_player.format_reader import FormatReader

    path = prepared(model, device, tmp_path / "m.fourfold", launches)
    session = fourfold.Session(str(path), device=device.address, cache=None)
    arrays = [draw(info) for info in session.inputs]
    expected = session.run(arrays)
    other = FormatReader(path.read_bytes())
    assert other.plan["input_names"] == [info.name for info in session.inputs]
    assert other.plan["output_names"] == [*expected]
    for found, array in zip(other.run(arrays), expected.values(), strict=True):
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()


def test_states(device: DeviceInfo, tmp_path: Path) -> None:
    from c_player.format_reader import FormatReader

    model = tmp_path / "stream.tflite"
    model.write_bytes(stream(start=0.5))
    path = prepared(model, device, tmp_path / "m.fourfold", "list")
    session = fourfold.Session(str(path), device=device.address, cache=None)
    other = FormatReader(path.read_bytes())
    for run in range(4):
        if run == 3:
            session.reset()
            other.reset()
        arrays = [draw(info) + np.float32(run) for info in session.inputs]
        expected = session.run(arrays)
        for found, array in zip(other.run(arrays), expected.values(), strict=True):
            assert found.tobytes() == array.tobytes()
