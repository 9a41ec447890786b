"""Tasks of a newcomer in Python: check, prepare, verify and measure a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from runtimes import needs_litert

import fourfold

pytestmark = pytest.mark.needs_device


@needs_litert
def test_a_model_from_check_to_benchmark(folder: Path) -> None:
    report = fourfold.check("colors.tflite")
    assert report.placement.whole
    assert report.metadata.outputs
    assert "all 3 operators run on" in str(report)

    file = fourfold.prepare("colors.tflite", "colors.fourfold", everywhere=False)
    assert Path("colors.fourfold").stat().st_size == file.size
    (plan,) = file.plans
    assert (plan.model, plan.precision) == ("colors", "fp32")
    checked = fourfold.check("colors.fourfold")
    assert checked.prepared is not None
    assert checked.prepared.fits_device
    assert checked.prepared.launches == plan.launches

    verification = fourfold.verify("colors.tflite", seed=3)
    assert verification.agrees
    assert verification.engine == "LiteRT"

    measured = fourfold.benchmark("colors.fourfold", seconds=0, runs=3)
    assert measured.times["fourfold"].runs == 3
    assert measured.launches == plan.launches
    compared = fourfold.benchmark("colors.tflite", seconds=0, runs=3)
    assert compared.ratios.keys() == {"LiteRT CPU"}

    for one in (report, file, checked, verification, measured, fourfold.estimate("colors.tflite")):
        assert json.loads(json.dumps(one.to_json(), default=str))
        assert str(one)
        assert repr(one).startswith(f"<{type(one).__name__}: ")
        assert "<table>" in one._repr_html_()


@needs_litert
def test_inputs_of_the_caller(folder: Path) -> None:
    with fourfold.Session("colors.tflite") as session:
        (info,) = session.inputs
    picture = np.zeros(info.shape, info.dtype)
    assert fourfold.verify("colors.tflite", picture, layers=True).layers
    assert fourfold.benchmark("colors.tflite", [picture], seconds=0, runs=2, compare=False)


def test_options_are_those_of_a_session(folder: Path) -> None:
    assert fourfold.check("colors.tflite", placement="cpu").placement.on_gpu == 0
    assert fourfold.check("colors.tflite", device="null").self_test is None
    with pytest.raises(fourfold.InputError, match="did you mean 'precision'"):
        fourfold.check("colors.tflite", precison="mixed")
    with pytest.raises(fourfold.InputError, match="did you mean 'precision'"):
        fourfold.verify("colors.tflite", precison="mixed")
    with pytest.raises(fourfold.InputError, match="pass devices="):
        fourfold.prepare("colors.tflite", "colors.fourfold", device="auto")
    with pytest.raises(fourfold.InputError, match="postprocess"):
        fourfold.verify("colors.tflite", postprocess="softmax")
    with pytest.raises(fourfold.InputError, match="there is no runtime 'litrt'"):
        fourfold.benchmark("colors.tflite", compare="litrt")


def test_a_file_that_is_not_a_prepared_file_is_kept(folder: Path) -> None:
    Path("notes.fourfold").write_text("not a prepared file")
    with pytest.raises(fourfold.InputError, match="exists already"):
        fourfold.prepare("colors.tflite", "notes.fourfold")
    assert Path("notes.fourfold").read_text() == "not a prepared file"
    with pytest.raises(fourfold.InputError, match="there is no model"):
        fourfold.prepare([], "empty.fourfold")


@pytest.mark.parametrize("depth", [0, -1, None, 1.5])
def test_a_stream_needs_a_depth_of_one_or_more(folder: Path, depth: object) -> None:
    with fourfold.Session("colors.tflite") as session:
        (info,) = session.inputs
        frames = [np.zeros(info.shape, info.dtype)] * 3
        with pytest.raises(fourfold.InputError, match="a whole number from 1"):
            session.stream(frames, depth=depth)  # type: ignore[arg-type]
        assert len([*session.stream(frames, depth=1)]) == 3


def test_a_file_without_damage_is_called_undamaged(
    folder: Path, shell: Callable[[str], str]
) -> None:
    fourfold.prepare("colors.tflite", "colors.fourfold", everywhere=False)
    assert "undamaged" in shell("fourfold inspect colors.fourfold")


def test_reports_of_written_models_show_themselves(folder: Path) -> None:
    optimized = fourfold.optimize("classifier.tflite", "classifier.onnx")
    quantized = fourfold.quantize("classifier.tflite", "half.tflite", "fp16")
    for one in (optimized, quantized):
        assert repr(one).startswith(f"<{type(one).__name__}: ")
        assert "<table>" in one._repr_html_()
        assert str(one)
        assert one.to_json()
