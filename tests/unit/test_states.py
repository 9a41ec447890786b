"""Operator states persist from run to run in every form of a session."""

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


def open_session(model: bytes, device: DeviceInfo | str, **options: Any) -> fourfold.Session:
    return fourfold.Session(model, device, **{"cache": None, **options})


def check_next_run(session: fourfold.Session, reference: InStep, seed: int) -> None:
    x = reference.draw(seed)
    outputs, expected_outputs = session.run(x).values(), reference.run(x)
    for array, expected in zip(outputs, expected_outputs, strict=True):
        assert array.shape == expected.shape
        np.testing.assert_allclose(array, expected, atol=TOLERANCE[session.precision])


FORMS = [
    *(("list", "fp32", name) for name in MODELS),
    *(("one", "fp32", name) for name in ("sequence projected", "basic cell", "svdf")),
    *((form, "mixed", name) for form in ("list", "one") for name in ("sequence plain", "svdf")),
]


@pytest.mark.parametrize(("form", "precision", "name"), FORMS)
def test_states_persist_between_runs_as_in_litert(
    device: DeviceInfo, form: str, precision: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", form)
    model = MODELS[name]()
    reference = InStep(interpreters, model)
    with open_session(model, device, precision=precision, placement="gpu", strict=True) as session:
        for seed in range(4):
            session._instance.executor.player.poison()
            check_next_run(session, reference, seed)
        session.reset()
        reference.reset()
        for seed in (7, 8):
            session._instance.executor.player.poison()
            check_next_run(session, reference, seed)


@pytest.mark.parametrize("name", ["sequence plain", "svdf"])
def test_cpu_session_keeps_and_resets_states(name: str) -> None:
    model = MODELS[name]()
    reference = InStep(interpreters, model)
    with open_session(model, "cpu") as session:
        for seed in range(3):
            check_next_run(session, reference, seed)
        session.reset()
        reference.reset()
        check_next_run(session, reference, 5)


@pytest.mark.parametrize("place", ["GPU", "LiteRT"])
def test_states_persist_in_parts_on_any_target(device: DeviceInfo, place: str) -> None:
    model = lstm_before_a_diagonal()
    reference = InStep(interpreters, model)
    with open_session(model, device, placement="gpu" if place == "GPU" else "cpu") as session:
        rows = {row.op: row.target for row in session.placement.rows}
        assert rows["MATRIX_DIAG"] == "litert"
        assert rows["UNIDIRECTIONAL_SEQUENCE_LSTM"] == ("gpu" if place == "GPU" else "litert")
        for seed in range(3):
            check_next_run(session, reference, seed)
        session.reset()
        reference.reset()
        check_next_run(session, reference, 5)


@pytest.mark.parametrize("where", ["list", "one", "cpu"])
@pytest.mark.parametrize("name", list(STREAMS))
def test_variables_start_at_their_initial_values_and_persist(
    device: DeviceInfo, name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "one" if where == "one" else "list")
    model = STREAMS[name]()
    options: dict[str, Any] = {} if where == "cpu" else {"placement": "gpu", "strict": True}
    with open_session(model, "cpu" if where == "cpu" else device, **options) as session:
        for _ in range(2):
            reference = InStep(interpreters, model)
            for seed in range(3):
                if where != "cpu":
                    session._instance.executor.player.poison()
                check_next_run(session, reference, seed)
            session.reset()


@pytest.mark.parametrize("name", list(STREAMS))
def test_variables_work_from_the_cache(device: DeviceInfo, name: str, tmp_path: Path) -> None:
    model = STREAMS[name]()
    for origin in ("model", "store"):
        reference = InStep(interpreters, model)
        with open_session(model, device, cache=tmp_path) as session:
            assert session.origin == origin
            check_next_run(session, reference, 0)
            check_next_run(session, reference, 1)


def test_resized_models_in_parts_are_cached(device: DeviceInfo, tmp_path: Path) -> None:
    model = lstm_before_a_diagonal()
    reference = InStep(interpreters, model)
    origins = []
    for _ in range(2):
        with open_session(model, device, placement="gpu", cache=tmp_path) as session:
            alone = [session.run(reference.draw(seed))["z"] for seed in (1, 2)]
            origins.append(session.origin)
            session.resize((6, 3, 5))
            origins.append(session.origin)
            assert session.outputs[0].shape == (6, 3, 7, 7)
            for seed, expected in zip((1, 2), alone, strict=True):
                wide = session.run(np.concatenate([reference.draw(seed)] * 3))["z"]
                np.testing.assert_allclose(wide, np.concatenate([expected] * 3), atol=1e-6)
    assert origins == ["model", "model", "store", "store"]


def test_sessions_do_not_share_states(device: DeviceInfo) -> None:
    model = sequence_lstm()
    references = [InStep(interpreters, model) for _ in range(2)]
    with open_session(model, device) as one, open_session(model, device) as other:
        for seed in range(3):
            check_next_run(one, references[0], seed)
        check_next_run(other, references[1], 0)
        other.reset()
        check_next_run(one, references[0], 4)


def test_profiling_does_not_change_states(device: DeviceInfo) -> None:
    model = sequence_lstm()
    reference = InStep(interpreters, model)
    with open_session(model, device) as session:
        check_next_run(session, reference, 0)
        session.profile(reference.draw(9), runs=2)
        check_next_run(session, reference, 1)


def test_resize_resets_states_and_state_rows_follow_the_batch(device: DeviceInfo) -> None:
    """In LiteRT, states have the number of rows in the file; here they follow the inputs."""
    model = svdf()
    reference = InStep(interpreters, model)
    with open_session(model, device) as session:
        check_next_run(session, reference, 0)
        session.resize((6, 7))
        for seed in (1, 2):
            x = np.concatenate([reference.draw(seed)] * 3)
            wide = session.run(x)["y"]
        session.resize((2, 7))
        reference.reset()
        check_next_run(session, reference, 1)
        np.testing.assert_allclose(wide[:2], session.run(reference.draw(2))["y"], atol=1e-6)
        np.testing.assert_array_equal(wide[:2], wide[4:])


def test_cached_models_start_with_initial_states(device: DeviceInfo, tmp_path: Path) -> None:
    model = sequence_lstm()
    for origin in ("model", "store"):
        reference = InStep(interpreters, model)
        with open_session(model, device, cache=tmp_path) as session:
            assert session.origin == origin
            for seed in range(3):
                check_next_run(session, reference, seed)


def test_states_persist_with_a_prepared_file(device: DeviceInfo, tmp_path: Path) -> None:
    path, file = tmp_path / "lstm.tflite", tmp_path / "lstm.fourfold"
    path.write_bytes(sequence_lstm())
    draft = Draft()
    prepare_model(draft, path, device, CompileOptions(), {})
    draft.write(file)
    reference = InStep(interpreters, path.read_bytes())
    with fourfold.Session(file, device, cache=None) as session:
        assert session.origin == "file"
        for seed in range(3):
            check_next_run(session, reference, seed)


@pytest.mark.parametrize(("name", "copied"), [("sequence plain", 0), ("svdf", 1)])
def test_state_is_copied_only_when_its_old_value_is_still_needed(
    device: DeviceInfo, name: str, copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An LSTM cell has read its old state before the new one is written; SVDF shifts it."""
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "list")
    with open_session(MODELS[name](), device, strict=True) as session:
        launches = session.plan.launches
    assert sum("in the next run" in launch.node for launch in launches) == copied
