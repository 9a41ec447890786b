"""States: what operators keep goes on from run to run, in every form of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stateful_models import (
    MODELS,
    STREAMS,
    InStep,
    lstm_before_a_diagonal,
    sequence_lstm,
    svdf,
)

import fourfold
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model

interpreters = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
TOLERANCE = {"fp32": 1e-5, "mixed": 2e-2}


def opened(model: bytes, device: DeviceInfo | str, **options: Any) -> fourfold.Session:
    return fourfold.Session(model, device, **{"cache": None, **options})


def agrees(session: fourfold.Session, rival: InStep, seed: int) -> None:
    x = rival.draw(seed)
    found, wanted = session.run(x).values(), rival.run(x)
    for array, expected in zip(found, wanted, strict=True):
        assert array.shape == expected.shape
        np.testing.assert_allclose(array, expected, atol=TOLERANCE[session.precision])


FORMS = [
    *(("list", "fp32", name) for name in MODELS),
    *(("one", "fp32", name) for name in ("sequence projected", "basic cell", "svdf")),
    *((form, "mixed", name) for form in ("list", "one") for name in ("sequence plain", "svdf")),
]


@pytest.mark.parametrize(("form", "precision", "name"), FORMS)
def test_runs_go_on_from_each_other_as_in_litert(
    device: DeviceInfo, form: str, precision: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", form)
    model = MODELS[name]()
    rival = InStep(interpreters, model)
    with opened(model, device, precision=precision, placement="gpu", strict=True) as session:
        for seed in range(4):
            session._instance.executor.player.poison()
            agrees(session, rival, seed)
        session.reset()
        rival.reset()
        for seed in (7, 8):
            session._instance.executor.player.poison()
            agrees(session, rival, seed)


@pytest.mark.parametrize("name", ["sequence plain", "svdf"])
def test_a_model_on_the_cpu_remembers_and_forgets(name: str) -> None:
    model = MODELS[name]()
    rival = InStep(interpreters, model)
    with opened(model, "cpu") as session:
        for seed in range(3):
            agrees(session, rival, seed)
        session.reset()
        rival.reset()
        agrees(session, rival, 5)


@pytest.mark.parametrize("place", ["GPU", "LiteRT"])
def test_parts_remember_wherever_they_run(device: DeviceInfo, place: str) -> None:
    model = lstm_before_a_diagonal()
    rival = InStep(interpreters, model)
    with opened(model, device, placement="gpu" if place == "GPU" else "cpu") as session:
        rows = {row.op: row.target for row in session.placement.rows}
        assert rows["MATRIX_DIAG"] == "litert"
        assert rows["UNIDIRECTIONAL_SEQUENCE_LSTM"] == ("gpu" if place == "GPU" else "litert")
        for seed in range(3):
            agrees(session, rival, seed)
        session.reset()
        rival.reset()
        agrees(session, rival, 5)


@pytest.mark.parametrize("where", ["list", "one", "cpu"])
@pytest.mark.parametrize("name", list(STREAMS))
def test_variables_begin_as_the_file_says_and_go_on(
    device: DeviceInfo, name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "one" if where == "one" else "list")
    model = STREAMS[name]()
    options: dict[str, Any] = {} if where == "cpu" else {"placement": "gpu", "strict": True}
    with opened(model, "cpu" if where == "cpu" else device, **options) as session:
        for _ in range(2):
            rival = InStep(interpreters, model)
            for seed in range(3):
                if where != "cpu":
                    session._instance.executor.player.poison()
                agrees(session, rival, seed)
            session.reset()


@pytest.mark.parametrize("name", list(STREAMS))
def test_variables_are_prepared_and_stored(device: DeviceInfo, name: str, tmp_path: Path) -> None:
    model = STREAMS[name]()
    for origin in ("model", "store"):
        rival = InStep(interpreters, model)
        with opened(model, device, cache=tmp_path) as session:
            assert session.origin == origin
            agrees(session, rival, 0)
            agrees(session, rival, 1)


def test_parts_take_other_shapes_and_start_warm_with_each(
    device: DeviceInfo, tmp_path: Path
) -> None:
    model = lstm_before_a_diagonal()
    rival = InStep(interpreters, model)
    origins = []
    for _ in range(2):
        with opened(model, device, placement="gpu", cache=tmp_path) as session:
            alone = [session.run(rival.draw(seed))["z"] for seed in (1, 2)]
            origins.append(session.origin)
            session.resize((6, 3, 5))
            origins.append(session.origin)
            assert session.outputs[0].shape == (6, 3, 7, 7)
            for seed, expected in zip((1, 2), alone, strict=True):
                wide = session.run(np.concatenate([rival.draw(seed)] * 3))["z"]
                np.testing.assert_allclose(wide, np.concatenate([expected] * 3), atol=1e-6)
    assert origins == ["model", "model", "store", "store"]


def test_two_sessions_share_nothing(device: DeviceInfo) -> None:
    model = sequence_lstm()
    rivals = [InStep(interpreters, model) for _ in range(2)]
    with opened(model, device) as one, opened(model, device) as other:
        for seed in range(3):
            agrees(one, rivals[0], seed)
        agrees(other, rivals[1], 0)
        other.reset()
        agrees(one, rivals[0], 4)


def test_profiling_changes_no_state(device: DeviceInfo) -> None:
    model = sequence_lstm()
    rival = InStep(interpreters, model)
    with opened(model, device) as session:
        agrees(session, rival, 0)
        session.profile(rival.draw(9), runs=2)
        agrees(session, rival, 1)


def test_another_shape_starts_anew_and_rows_follow_the_batch(device: DeviceInfo) -> None:
    """LiteRT's states have as many rows as the file says; here they follow the inputs."""
    model = svdf()
    rival = InStep(interpreters, model)
    with opened(model, device) as session:
        agrees(session, rival, 0)
        session.resize((6, 7))
        for seed in (1, 2):
            x = np.concatenate([rival.draw(seed)] * 3)
            wide = session.run(x)["y"]
        session.resize((2, 7))
        rival.reset()
        agrees(session, rival, 1)
        np.testing.assert_allclose(wide[:2], session.run(rival.draw(2))["y"], atol=1e-6)
        np.testing.assert_array_equal(wide[:2], wide[4:])


def test_states_are_kept_in_plans_not_in_the_store(device: DeviceInfo, tmp_path: Path) -> None:
    model = sequence_lstm()
    for origin in ("model", "store"):
        rival = InStep(interpreters, model)
        with opened(model, device, cache=tmp_path) as session:
            assert session.origin == origin
            for seed in range(3):
                agrees(session, rival, seed)


def test_a_prepared_file_remembers(device: DeviceInfo, tmp_path: Path) -> None:
    path, file = tmp_path / "lstm.tflite", tmp_path / "lstm.fourfold"
    path.write_bytes(sequence_lstm())
    draft = Draft()
    prepare_model(draft, path, device, CompileOptions(), {})
    draft.write(file)
    rival = InStep(interpreters, path.read_bytes())
    with fourfold.Session(file, device, cache=None) as session:
        assert session.origin == "file"
        for seed in range(3):
            agrees(session, rival, seed)


@pytest.mark.parametrize(("name", "copied"), [("sequence plain", 0), ("svdf", 1)])
def test_a_state_is_copied_only_where_the_old_one_is_still_needed(
    device: DeviceInfo, name: str, copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell has read its old state long before the new one is there; SVDF moves it along."""
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "list")
    with opened(MODELS[name](), device, strict=True) as session:
        launches = session.plan.launches
    assert sum("in the next run" in launch.node for launch in launches) == copied
