"""Checks that the C player and Python give bit-identical results for a prepared file."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_player.build import command, run_json
from model_collection import or_skipped

import fourfold
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.tools.prepare import prepare_model

MODELS = Path(os.environ.get("FOURFOLD_MODELS", Path(__file__).parents[3] / "shared" / "models"))
FILES = sorted((MODELS / "tflite").glob("*.tflite"))
QUICK = ("ds_cnn_quantized", "face_detection_short_range", "recommendation_rnn_i10o100")
SLOW = or_skipped(
    pytest.param(one, marks=() if one.stem in QUICK else pytest.mark.slow) for one in FILES
)
RUNS = 3


def draw(info: fourfold.TensorInfo) -> np.ndarray:
    """Return reproducible random values for an input."""
    random = np.random.default_rng(zlib.crc32(info.name.encode()))
    if info.dtype.kind == "f":
        return random.uniform(-1, 1, info.shape).astype(info.dtype)
    most = 2 if info.dtype.itemsize > 1 or info.dtype.kind == "b" else 128
    return random.integers(0, most, info.shape).astype(info.dtype)


def save(folder: Path, arrays: list[np.ndarray]) -> None:
    folder.mkdir()
    for number, array in enumerate(arrays):
        np.save(folder / f"0.{number}.npy", array)


def check(line: dict[str, Any], expected: dict[str, np.ndarray]) -> None:
    assert [one["name"] for one in line["outputs"]] == [*expected]
    for one, array in zip(line["outputs"], expected.values(), strict=True):
        output = np.load(one["file"])
        assert (output.dtype, output.shape) == (array.dtype, array.shape)
        assert output.tobytes() == array.tobytes(), one["name"]


@pytest.mark.parametrize("launches", ["list", "one"])
@pytest.mark.parametrize("model", SLOW, ids=lambda model: model.stem)
def test_matches_python_on_real_models(
    device: DeviceInfo, model: Path, launches: str, tmp_path: Path
) -> None:
    command()
    path, draft = tmp_path / "model.fourfold", Draft()
    prepare_model(draft, model, device, CompileOptions(launches=launches), {})
    draft.write(path)
    session = fourfold.Session(str(path), device=device.address, cache=None)
    arrays = [draw(info) for info in session.inputs]
    for _ in range(RUNS):
        expected = session.run(arrays)
    session.close()
    save(tmp_path / "in", arrays)
    where = ("--inputs", tmp_path / "in", "--output", tmp_path / "out", "--runs", str(RUNS))
    (line,) = run_json(path, "--device", str(device.ordinal), *where)
    assert line["program"] == "file"
    assert not any(one["made_up"] for one in line["inputs"])
    check(line, dict(expected))
