"""A session is pickled and copied as its arguments, and opened again from them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_networks import small_classifier, write_tflite
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends.opencl import devices as opencl
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.options import CompileOptions
from fourfold.store.store import Store
from fourfold.tools.preparation import Draft, prepare_model

X = numbers(1)
Copier = Callable[[fourfold.Session], fourfold.Session]


def pickle_round_trip(session: fourfold.Session) -> fourfold.Session:
    result: fourfold.Session = pickle.loads(pickle.dumps(session))
    return result


@pytest.fixture(
    params=[pickle_round_trip, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"]
)
def copier(request: pytest.FixtureRequest) -> Any:
    return request.param


def make_source(kind: str, tmp_path: Path, device: DeviceInfo) -> Path | str | bytes:
    path, prepared = tmp_path / "model.tflite", tmp_path / "model.fourfold"
    path.write_bytes(matrix())
    if kind == "prepared":
        draft = Draft()
        prepare_model(draft, path, device, CompileOptions(), {})
        draft.write(prepared)
        return prepared
    return {"path": path, "text": str(path), "bytes": matrix()}[kind]


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "prepared"])
def test_copy_reopens_the_source(
    tmp_path: Path, device: DeviceInfo, kind: str, copier: Copier
) -> None:
    with fourfold.Session(make_source(kind, tmp_path, device), device, cache=None) as session:
        result = copier(session)
        assert result is not session
        assert (result.device, result.precision) == (session.device, session.precision)
        assert (result.origin == "file") == (kind == "prepared")
    with result:  # The copy works after the original is closed.
        np.testing.assert_allclose(result.run(X)["y"], X @ WEIGHTS.T, atol=1e-6)


def test_copy_keeps_all_options(tmp_path: Path, device: DeviceInfo, copier: Copier) -> None:
    pixels = fourfold.Pixels(mean=127.5, std=127.5, order="rgba")
    options: dict[str, Any] = {"pixels": pixels, "precision": "mixed", "kept_shapes": 1}
    store, content = Store(tmp_path), write_tflite(small_classifier())
    with fourfold.Session(content, device, cache=store, **options) as session:
        result = copier(session)
    with result:
        assert result.inputs == session.inputs
        assert result.inputs[0].dtype == np.uint8
        assert (result.precision, result.origin) == ("mixed", "store")


def test_in_memory_store_is_not_pickled(device: DeviceInfo) -> None:
    with fourfold.Session(matrix(), device, cache=Store(None)) as session:
        result = pickle_round_trip(session)
    with result:
        assert result.origin == "model"


def test_copy_has_the_current_shapes(device: DeviceInfo, copier: Copier) -> None:
    x = numbers(3, rows=5)
    with fourfold.Session(matrix(), device, cache=None) as session:
        session.resize(x=(5, 4))
        result = copier(session)
        session.resize(x=(2, 4))
    with result:
        assert result.inputs[0].shape == (5, 4)
        np.testing.assert_allclose(result.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_pickling_rejects_lambdas(device: DeviceInfo) -> None:
    with fourfold.Session(matrix(), device, cache=None, on_fallback=lambda row: None) as session:
        with pytest.raises(InputError, match="on_fallback") as caught:
            pickle.dumps(session)
        assert caught.value.what == "this session cannot be pickled"
        copy.copy(session).close()


def test_pickling_rejects_a_shared_context(device: DeviceInfo) -> None:
    if device.api != "opencl":
        pytest.skip("the API has no contexts")
    shared = replace(device, shared_context=opencl.context_of(device).pointer.value or 0)
    with fourfold.Session(matrix(), shared, cache=None) as session:
        with pytest.raises(InputError, match="of this process") as caught:
            pickle.dumps(session)
        assert repr(device.address) in caught.value.fix
        with copy.copy(session) as result:
            np.testing.assert_allclose(result.run(X)["y"], X @ WEIGHTS.T, atol=1e-6)


def test_pickles_importable_callbacks(device: DeviceInfo) -> None:
    with fourfold.Session(matrix(), device, cache=None, on_fallback=print) as session:
        pickle_round_trip(session).close()


def test_closed_sessions_cannot_be_copied(device: DeviceInfo, copier: Copier) -> None:
    session = fourfold.Session(matrix(), device, cache=None)
    session.close()
    with pytest.raises(InputError, match="closed"):
        copier(session)
