"""A model that runs entirely in LiteRT takes a direct path with all input checks."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from runtimes import needs_litert
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.errors import InputError

pytestmark = needs_litert


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch):
    """Yield a CPU session that fails when it leaves the direct path."""
    with fourfold.Session(matrix(repeat=True), device="cpu", cache=None) as opened:
        monkeypatch.setattr(
            opened._instance.executor, "run", lambda arrays: pytest.fail("left the direct path")
        )
        yield opened


@pytest.mark.parametrize("form", ["dict", "list", "tuple", "array", "strided", "read-only"])
def test_direct_path_accepts_every_input_form(session: fourfold.Session, form: str) -> None:
    x = numbers(1)
    strided, locked = np.repeat(x, 2, axis=1)[:, ::2], x.copy()
    locked.flags.writeable = False
    one = {"dict": {"x": x}, "list": [x], "tuple": (x,), "array": x}
    results = session.run({**one, "strided": strided, "read-only": locked}[form])
    assert list(results) == [info.name for info in session.outputs]
    for result in results.values():
        np.testing.assert_allclose(result, x @ WEIGHTS.T, atol=1e-6)


def test_later_runs_do_not_overwrite_results(session: fourfold.Session) -> None:
    first, second = session.run(numbers(1)).values()
    copy = second.copy()
    first[:] = np.nan
    session.run(numbers(2))
    np.testing.assert_array_equal(second, copy)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"x": np.zeros((3, 4), np.float32)}, "shape"),
        ({"x": np.zeros((4, 2), np.float32)}, "shape"),
        ({"x": np.zeros(8, np.float32)}, "shape"),
        ({"x": np.zeros((2, 4), np.int64)}, "is int64, not float32"),
        ({"x": np.ma.masked_array(numbers(1), numbers(1) > 0)}, "masked"),
        ({"z": np.zeros((2, 4), np.float32)}, "no input 'z'"),
        ({}, "missing"),
        ({"x": numbers(1), "z": numbers(1)}, "no input 'z'"),
        ([numbers(1), numbers(1)], "2 arrays"),
        ([[1.0, 2.0]], "shape"),
    ],
)
def test_direct_path_rejects_invalid_inputs(
    session: fourfold.Session, value: object, what: str
) -> None:
    with pytest.raises(InputError, match=what):
        session.run(value)


def test_several_threads_run_at_once(session: fourfold.Session) -> None:
    failed_seeds: list[int] = []

    def work(seed: int) -> None:
        x = numbers(seed)
        results = [session.run(x)["y"] for _ in range(50)]
        if not np.allclose(results, x @ WEIGHTS.T, atol=1e-6):
            failed_seeds.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed_seeds


def test_closed_session_does_not_run(session: fourfold.Session) -> None:
    session.close()
    with pytest.raises(InputError, match="closed"):
        session.run(numbers(1))
