"""Postprocessing in the cache, in prepared files, in models with several parts, and in commands."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import detector_networks as networks
import numpy as np
import pytest
from click.testing import CliRunner
from runtimes import needs_litert

import fourfold
from fourfold import processing
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.formats.tflite import walk
from fourfold.formats.tflite.convert import rules
from fourfold.plan.targets import GPU

OPTION = processing.YoloBoxes(0.3, 0.4, 7, normalized=True)
TEXT = "yolo:score=0.3,overlap=0.4,most=7,normalized=true"
X = np.random.default_rng(7).uniform(-1, 1, (1, 32, 48, 3)).astype(np.float32)
NAMES = ["boxes", "scores", "classes", "count"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "yolo.tflite"
    path.write_bytes(networks.yolo_v5())
    return path


def run(
    source: Path, device: DeviceInfo | str, **options: Any
) -> tuple[str, dict[str, np.ndarray]]:
    """Return the origin of the plan and its outputs."""
    with fourfold.Session(source, device, **{"cache": None, **options}) as session:
        return session.origin, session.run(X)


def check_equal(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


@needs_litert
@pytest.mark.parametrize("on_cpu", [False, True])
def test_cache_separates_postprocess_options(
    on_cpu: bool, model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    where = "cpu" if on_cpu else device
    others = (None, OPTION, processing.YoloBoxes(0.3, 0.4, 8, normalized=True))
    for origin in ("model", "store"):
        shapes = []
        for option in others:
            result, arrays = run(model, where, cache=tmp_path / "store", postprocess=option)
            assert result == origin
            shapes.append(next(array.shape[:2] for array in arrays.values()))
        assert shapes == [(1, 192), (1, 7), (1, 8)]


def prepare(model: Path, *words: str) -> Path:
    path = model.with_suffix(".fourfold")
    result = CliRunner().invoke(main, ["prepare", str(model), "-o", str(path), *words])
    assert result.exit_code == 0, result.output
    return path


def test_prepared_file_contains_postprocessing(model: Path, device: DeviceInfo) -> None:
    expected = run(model, device, postprocess=OPTION)[1]
    path = prepare(model, "--postprocess", TEXT)
    for option in (None, OPTION):
        origin, result = run(path, device, postprocess=option)
        assert origin == "file"
        check_equal(result, expected)
    with pytest.raises(InputError, match="was not prepared for the postprocessing 'yolo'") as told:
        run(path, device, postprocess=processing.YoloBoxes())
    assert told.value.why == f"it was prepared for: {TEXT}"
    shown = CliRunner().invoke(main, ["inspect", str(path)]).output
    assert "postprocessing" in shown
    rows = json.loads(CliRunner().invoke(main, ["inspect", str(path), "--json"]).output)["plans"]
    assert {one["postprocess"] for one in rows} == {TEXT}


def test_prepared_file_contains_several_variants(model: Path, device: DeviceInfo) -> None:
    prepare(model, "--postprocess", TEXT)
    path = prepare(model, "--postprocess", "predictions=topk", "--add")
    with pytest.raises(InputError, match="has 2 postprocessings"):
        run(path, device)
    top = {"predictions": processing.TopK()}
    assert list(run(path, device, postprocess=top)[1]) == ["scores", "classes"]
    assert list(run(path, device, postprocess=OPTION)[1]) == NAMES
    prepare(model, "--add")
    assert list(run(path, device)[1]) == ["predictions"]  # the model without postprocessing


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make LOGISTIC, before the boxes, an operator that only LiteRT supports."""
    supported = {name: rule for name, rule in rules().items() if name != "LOGISTIC"}
    monkeypatch.setattr(walk, "rules", lambda: supported)


@needs_litert
@pytest.mark.parametrize("placement", ["gpu", "auto"])
def test_model_with_several_parts(
    placement: str, model: Path, device: DeviceInfo, in_parts: None, tmp_path: Path
) -> None:
    expected = run(model, "cpu", postprocess=OPTION)[1]
    how: dict[str, Any] = {"postprocess": OPTION, "placement": placement}
    with fourfold.Session(model, device, cache=None, **how) as session:
        targets = [part.target for part in session.placement.parts]
        check_equal(session.run(X), expected)
    assert "litert" in targets
    assert (targets == [GPU, "litert", GPU]) or placement == "auto"
    origins = []
    for _ in range(2):
        origin, result = run(model, device, cache=tmp_path / "store", **how)
        check_equal(result, expected)
        origins.append(origin)
    assert origins == ["model", "store"]


@needs_litert
def test_prepared_model_with_several_parts(model: Path, device: DeviceInfo, in_parts: None) -> None:
    expected = run(model, "cpu", postprocess=OPTION)[1]
    path = prepare(model, "--postprocess", TEXT)
    origin, result = run(path, device)
    assert origin == "file"
    check_equal(result, expected)


def test_takes_image_bytes_and_returns_boxes(model: Path, device: DeviceInfo) -> None:
    bytes_ = np.random.default_rng(2).integers(0, 256, (1, 32, 48, 3), np.uint8)
    pixels = fourfold.Pixels(127.5, 127.5)
    real = (bytes_ - np.float32(127.5)) / np.float32(127.5)
    how: dict[str, Any] = {"cache": None, "postprocess": OPTION}
    with fourfold.Session(model, device, **how) as plain:
        expected = plain.run(real)
    with fourfold.Session(model, device, pixels=pixels, **how) as session:
        assert session.inputs[0].dtype == np.uint8
        check_equal(session.run(bytes_), expected)


@pytest.mark.parametrize("form", ["list", "one"])
def test_works_with_a_launch_list_and_one_launch(
    form: str, model: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(model, "cpu", postprocess=OPTION)[1]
    monkeypatch.setenv("FOURFOLD_LAUNCHES", form)
    check_equal(run(model, device, postprocess=OPTION)[1], expected)


def test_supports_another_batch(model: Path, device: DeviceInfo) -> None:
    with fourfold.Session(model, device, cache=None, postprocess=OPTION) as session:
        single = session.run(X)
        session.resize((3, 32, 48, 3))
        assert session.outputs[0].shape == (3, 7, 4)
        outputs = session.run(np.repeat(X, 3, 0))
    for name, array in single.items():
        np.testing.assert_allclose(outputs[name], np.repeat(array, 3, 0), atol=1e-6)


def test_commands_accept_postprocess_options(model: Path) -> None:
    words = ["explain", str(model), "--stage", "plan", "--postprocess", TEXT]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "non_max_suppression" in result.output
    words = ["run", str(model), "--device", "cpu", "--json", "--postprocess", TEXT]
    result = CliRunner().invoke(main, words)
    assert [one["name"] for one in json.loads(result.stdout)["outputs"]] == NAMES


def test_estimate_includes_postprocessing(model: Path, device: DeviceInfo) -> None:
    plain, few = (
        fourfold.estimate(model, device, cache=None, postprocess=option)
        for option in (None, OPTION)
    )
    assert plain.outputs == 192 * 8 * 4
    assert few.outputs < 7 * 7 * 4 + 512


def test_fetches_requested_results_only(model: Path, device: DeviceInfo) -> None:
    with fourfold.Session(model, device, cache=None, postprocess=OPTION) as session:
        expected = session.run(X)
        output = session.run(X, outputs=["count", "boxes"])
        assert sorted(output) == ["boxes", "count"]
        for name, array in output.items():
            np.testing.assert_array_equal(array, expected[name])
        into = np.zeros((1, 7, 4), np.float32)
        session.run(X, out={"boxes": into})
        np.testing.assert_array_equal(into, expected["boxes"])
        with pytest.raises(InputError, match="predictions"):
            session.run(X, outputs=["predictions"])


CHILD = """
import sys, numpy as np, fourfold
from fourfold import processing
option = processing.YoloBoxes(0.3, 0.4, 7, normalized=True)
with fourfold.Session(sys.argv[1], cache=sys.argv[2], postprocess=option) as session:
    found = session.run(np.zeros((1, 32, 48, 3), np.float32))
print(session.origin, *(name for name in sys.modules if name in sys.argv[3:]))
"""
COMPILER_MODULES = (
    *("fourfold.compiler.compile", "fourfold.formats", "fourfold.graph", "fourfold.ops"),
    *(
        "fourfold.compiler.rewrite",
        "fourfold.compiler.lower",
        "fourfold.codegen",
        "fourfold.compiler.postprocess",
    ),
)


def test_warm_start_does_not_import_the_compiler(
    model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    run(model, device, cache=tmp_path / "store", postprocess=OPTION)
    words = [model, tmp_path / "store", *COMPILER_MODULES]
    command = [sys.executable, "-c", CHILD, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["store"], done.stderr


def test_session_with_postprocessing_can_be_pickled(model: Path, device: DeviceInfo) -> None:
    with fourfold.Session(model, device, cache=None, postprocess=OPTION) as session:
        expected = session.run(X)
        with pickle.loads(pickle.dumps(session)) as again:
            check_equal(again.run(X), expected)
