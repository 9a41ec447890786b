"""Post-processing in the store, in prepared files, in models in parts, from the command line."""

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


def run(source: Path, device: DeviceInfo | str, **how: Any) -> tuple[str, dict[str, np.ndarray]]:
    """Where the plan came from, and what it gives."""
    with fourfold.Session(source, device, **{"cache": None, **how}) as session:
        return session.origin, session.run(X)


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


@needs_litert
@pytest.mark.parametrize("on_cpu", [False, True])
def test_the_store_tells_options_apart(
    on_cpu: bool, model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    where = "cpu" if on_cpu else device
    others = (None, OPTION, processing.YoloBoxes(0.3, 0.4, 8, normalized=True))
    for origin in ("model", "store"):
        shapes = []
        for option in others:
            found, arrays = run(model, where, cache=tmp_path / "store", postprocess=option)
            assert found == origin
            shapes.append(next(array.shape[:2] for array in arrays.values()))
        assert shapes == [(1, 192), (1, 7), (1, 8)]


def prepare(model: Path, *words: str) -> Path:
    path = model.with_suffix(".fourfold")
    told = CliRunner().invoke(main, ["prepare", str(model), "-o", str(path), *words])
    assert told.exit_code == 0, told.output
    return path


def test_a_prepared_file_has_it(model: Path, device: DeviceInfo) -> None:
    wanted = run(model, device, postprocess=OPTION)[1]
    path = prepare(model, "--postprocess", TEXT)
    for option in (None, OPTION):
        origin, found = run(path, device, postprocess=option)
        assert origin == "file"
        same(found, wanted)
    with pytest.raises(InputError, match="was not prepared for the postprocessing 'yolo'") as told:
        run(path, device, postprocess=processing.YoloBoxes())
    assert told.value.why == f"it was prepared for: {TEXT}"
    shown = CliRunner().invoke(main, ["inspect", str(path)]).output
    assert "postprocessing" in shown
    rows = json.loads(CliRunner().invoke(main, ["inspect", str(path), "--json"]).output)["plans"]
    assert {one["postprocess"] for one in rows} == {TEXT}


def test_a_prepared_file_has_several(model: Path, device: DeviceInfo) -> None:
    prepare(model, "--postprocess", TEXT)
    path = prepare(model, "--postprocess", "predictions=topk", "--add")
    with pytest.raises(InputError, match="has 2 postprocessings"):
        run(path, device)
    top = {"predictions": processing.TopK()}
    assert list(run(path, device, postprocess=top)[1]) == ["scores", "classes"]
    assert list(run(path, device, postprocess=OPTION)[1]) == NAMES
    prepare(model, "--add")
    assert list(run(path, device)[1]) == ["predictions"]  # as the model itself has it


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteRT alone knows the operator before the boxes."""
    known = {name: rule for name, rule in rules().items() if name != "LOGISTIC"}
    monkeypatch.setattr(walk, "rules", lambda: known)


@needs_litert
@pytest.mark.parametrize("placement", ["gpu", "auto"])
def test_a_model_in_parts(
    placement: str, model: Path, device: DeviceInfo, in_parts: None, tmp_path: Path
) -> None:
    wanted = run(model, "cpu", postprocess=OPTION)[1]
    how: dict[str, Any] = {"postprocess": OPTION, "placement": placement}
    with fourfold.Session(model, device, cache=None, **how) as session:
        targets = [part.target for part in session.placement.parts]
        same(session.run(X), wanted)
    assert "litert" in targets
    assert (targets == [GPU, "litert", GPU]) or placement == "auto"
    origins = []
    for _ in range(2):
        origin, found = run(model, device, cache=tmp_path / "store", **how)
        same(found, wanted)
        origins.append(origin)
    assert origins == ["model", "store"]


@needs_litert
def test_a_prepared_model_in_parts(model: Path, device: DeviceInfo, in_parts: None) -> None:
    wanted = run(model, "cpu", postprocess=OPTION)[1]
    path = prepare(model, "--postprocess", TEXT)
    origin, found = run(path, device)
    assert origin == "file"
    same(found, wanted)


def test_pictures_in_and_boxes_out(model: Path, device: DeviceInfo) -> None:
    bytes_ = np.random.default_rng(2).integers(0, 256, (1, 32, 48, 3), np.uint8)
    pixels = fourfold.Pixels(127.5, 127.5)
    real = (bytes_ - np.float32(127.5)) / np.float32(127.5)
    how: dict[str, Any] = {"cache": None, "postprocess": OPTION}
    with fourfold.Session(model, device, **how) as plain:
        wanted = plain.run(real)
    with fourfold.Session(model, device, pixels=pixels, **how) as session:
        assert session.inputs[0].dtype == np.uint8
        same(session.run(bytes_), wanted)


@pytest.mark.parametrize("form", ["list", "one"])
def test_both_forms_of_launches(
    form: str, model: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = run(model, "cpu", postprocess=OPTION)[1]
    monkeypatch.setenv("FOURFOLD_LAUNCHES", form)
    same(run(model, device, postprocess=OPTION)[1], wanted)


def test_another_batch(model: Path, device: DeviceInfo) -> None:
    with fourfold.Session(model, device, cache=None, postprocess=OPTION) as session:
        single = session.run(X)
        session.resize((3, 32, 48, 3))
        assert session.outputs[0].shape == (3, 7, 4)
        found = session.run(np.repeat(X, 3, 0))
    for name, array in single.items():
        np.testing.assert_allclose(found[name], np.repeat(array, 3, 0), atol=1e-6)


def test_the_command_line_shows_it(model: Path) -> None:
    words = ["explain", str(model), "--stage", "plan", "--postprocess", TEXT]
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 0, told.output
    assert "non_max_suppression" in told.output
    words = ["run", str(model), "--device", "cpu", "--json", "--postprocess", TEXT]
    told = CliRunner().invoke(main, words)
    assert [one["name"] for one in json.loads(told.stdout)["outputs"]] == NAMES


def test_an_estimate_knows_it(model: Path, device: DeviceInfo) -> None:
    plain, few = (
        fourfold.estimate(model, device, cache=None, postprocess=option)
        for option in (None, OPTION)
    )
    assert plain.outputs == 192 * 8 * 4
    assert few.outputs < 7 * 7 * 4 + 512


def test_only_some_of_what_is_made_is_fetched(model: Path, device: DeviceInfo) -> None:
    with fourfold.Session(model, device, cache=None, postprocess=OPTION) as session:
        wanted = session.run(X)
        found = session.run(X, outputs=["count", "boxes"])
        assert sorted(found) == ["boxes", "count"]
        for name, array in found.items():
            np.testing.assert_array_equal(array, wanted[name])
        into = np.zeros((1, 7, 4), np.float32)
        session.run(X, out={"boxes": into})
        np.testing.assert_array_equal(into, wanted["boxes"])
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
HEAVY = (
    *("fourfold.compiler.compile", "fourfold.formats", "fourfold.graph", "fourfold.ops"),
    *(
        "fourfold.compiler.rewrite",
        "fourfold.compiler.lower",
        "fourfold.codegen",
        "fourfold.compiler.postprocess",
    ),
)


def test_a_warm_start_compiles_nothing(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    run(model, device, cache=tmp_path / "store", postprocess=OPTION)
    words = [model, tmp_path / "store", *HEAVY]
    command = [sys.executable, "-c", CHILD, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["store"], done.stderr


def test_another_process_gets_it(model: Path, device: DeviceInfo) -> None:
    with fourfold.Session(model, device, cache=None, postprocess=OPTION) as session:
        wanted = session.run(X)
        with pickle.loads(pickle.dumps(session)) as again:
            same(again.run(X), wanted)
