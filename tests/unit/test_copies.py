"""A session is pickled and copied as what its caller passed, and opened anew from that."""

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
Again = Callable[[fourfold.Session], fourfold.Session]


def pickled(session: fourfold.Session) -> fourfold.Session:
    made: fourfold.Session = pickle.loads(pickle.dumps(session))
    return made


@pytest.fixture(params=[pickled, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def again(request: pytest.FixtureRequest) -> Any:
    return request.param


def source_as(kind: str, tmp_path: Path, device: DeviceInfo) -> Path | str | bytes:
    path, prepared = tmp_path / "model.tflite", tmp_path / "model.fourfold"
    path.write_bytes(matrix())
    if kind == "prepared":
        draft = Draft()
        prepare_model(draft, path, device, CompileOptions(), {})
        draft.write(prepared)
        return prepared
    return {"path": path, "text": str(path), "bytes": matrix()}[kind]


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "prepared"])
def test_the_source_is_opened_again(
    tmp_path: Path, device: DeviceInfo, kind: str, again: Again
) -> None:
    with fourfold.Session(source_as(kind, tmp_path, device), device, cache=None) as session:
        made = again(session)
        assert made is not session
        assert (made.device, made.precision) == (session.device, session.precision)
        assert (made.origin == "file") == (kind == "prepared")
    with made:  # though the first is closed
        np.testing.assert_allclose(made.run(X)["y"], X @ WEIGHTS.T, atol=1e-6)


def test_all_options_go_with_it(tmp_path: Path, device: DeviceInfo, again: Again) -> None:
    pixels = fourfold.Pixels(mean=127.5, std=127.5, order="rgba")
    options: dict[str, Any] = {"pixels": pixels, "precision": "mixed", "kept_shapes": 1}
    store, content = Store(tmp_path), write_tflite(small_classifier())
    with fourfold.Session(content, device, cache=store, **options) as session:
        made = again(session)
    with made:
        assert made.inputs == session.inputs
        assert made.inputs[0].dtype == np.uint8
        assert (made.precision, made.origin) == ("mixed", "store")


def test_a_store_in_memory_is_not_sent(device: DeviceInfo) -> None:
    with fourfold.Session(matrix(), device, cache=Store(None)) as session:
        made = pickled(session)
    with made:
        assert made.origin == "model"


def test_shapes_are_those_of_now(device: DeviceInfo, again: Again) -> None:
    x = numbers(3, rows=5)
    with fourfold.Session(matrix(), device, cache=None) as session:
        session.resize(x=(5, 4))
        made = again(session)
        session.resize(x=(2, 4))
    with made:
        assert made.inputs[0].shape == (5, 4)
        np.testing.assert_allclose(made.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_a_function_that_cannot_be_sent(device: DeviceInfo) -> None:
    with fourfold.Session(matrix(), device, cache=None, on_fallback=lambda row: None) as session:
        with pytest.raises(InputError, match="on_fallback") as caught:
            pickle.dumps(session)
        assert caught.value.what == "this session cannot be pickled"
        copy.copy(session).close()


def test_a_context_of_the_caller_is_not_sent(device: DeviceInfo) -> None:
    if device.api != "opencl":
        pytest.skip("there is no context")
    shared = replace(device, shared_context=opencl.context_of(device).pointer.value or 0)
    with fourfold.Session(matrix(), shared, cache=None) as session:
        with pytest.raises(InputError, match="of this process") as caught:
            pickle.dumps(session)
        assert repr(device.address) in caught.value.fix
        with copy.copy(session) as made:
            np.testing.assert_allclose(made.run(X)["y"], X @ WEIGHTS.T, atol=1e-6)


def test_a_function_that_can_be_sent(device: DeviceInfo) -> None:
    with fourfold.Session(matrix(), device, cache=None, on_fallback=print) as session:
        pickled(session).close()


def test_a_closed_one_is_not_opened_again(device: DeviceInfo, again: Again) -> None:
    session = fourfold.Session(matrix(), device, cache=None)
    session.close()
    with pytest.raises(InputError, match="closed"):
        again(session)
