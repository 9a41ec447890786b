"""placement='measure' keeps the model where it was measured to be faster, and says why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runtimes import needs_litert
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.runtime import race

pytestmark = [
    pytest.mark.needs_device,
    needs_litert,
]


@pytest.mark.parametrize(("times", "where"), [((2.0, 1.0), "CPU"), ((1.0, 2.0), "device")])
def test_the_faster_one_is_taken_and_kept(
    times: tuple[float, float], where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []
    monkeypatch.setattr(race, "_times", lambda *_: asked.append(1) or times)
    for _ in range(2):
        with fourfold.Session(matrix(), placement="measure", cache=tmp_path) as made:
            x = numbers(1)
            np.testing.assert_allclose(made.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)
            text = str(made.placement)
        assert ("1000.00 ms on the CPU and 2000.00 ms on the device" in text) == (where == "CPU")
    assert len(asked) == 1  # the second session knows


def test_without_the_word_the_device_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(race, "_times", lambda *_: pytest.fail("nobody asked for a race"))
    with fourfold.Session(matrix(), cache=tmp_path) as made:
        assert made.placement.whole


def test_both_are_really_run() -> None:
    with fourfold.Session(matrix(), placement="measure", cache=None) as made:
        x = numbers(2)
        np.testing.assert_allclose(made.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)
