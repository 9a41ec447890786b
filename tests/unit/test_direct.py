"""A model that is wholly in LiteRT takes the shortest way there, and loses no check on it."""

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
    """On the CPU, and with no other way than the direct one."""
    with fourfold.Session(matrix(repeat=True), device="cpu", cache=None) as made:
        monkeypatch.setattr(
            made._instance.executor, "run", lambda arrays: pytest.fail("the long way")
        )
        yield made


@pytest.mark.parametrize("form", ["dict", "list", "tuple", "array", "strided", "read-only"])
def test_it_takes_all_that_a_session_takes(session: fourfold.Session, form: str) -> None:
    x = numbers(1)
    strided, locked = np.repeat(x, 2, axis=1)[:, ::2], x.copy()
    locked.flags.writeable = False
    one = {"dict": {"x": x}, "list": [x], "tuple": (x,), "array": x}
    results = session.run({**one, "strided": strided, "read-only": locked}[form])
    assert list(results) == [info.name for info in session.outputs]
    for result in results.values():
        np.testing.assert_allclose(result, x @ WEIGHTS.T, atol=1e-6)


def test_results_belong_to_the_caller(session: fourfold.Session) -> None:
    first, second = session.run(numbers(1)).values()
    kept = second.copy()
    first[:] = np.nan
    session.run(numbers(2))
    np.testing.assert_array_equal(second, kept)


@pytest.mark.parametrize(
    ("given", "what"),
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
def test_what_does_not_fit_is_told_as_always(
    session: fourfold.Session, given: object, what: str
) -> None:
    with pytest.raises(InputError, match=what):
        session.run(given)


def test_several_threads_at_once(session: fourfold.Session) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = numbers(seed)
        results = [session.run(x)["y"] for _ in range(50)]
        if not np.allclose(results, x @ WEIGHTS.T, atol=1e-6):
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_closed_session_does_not_run(session: fourfold.Session) -> None:
    session.close()
    with pytest.raises(InputError, match="closed"):
        session.run(numbers(1))
