"""`placement='measure'` runs the model where it was measured to be faster, and reports why."""

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
def test_measures_once_and_keeps_the_faster_target(
    times: tuple[float, float], where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measurements = []
    monkeypatch.setattr(race, "_times", lambda *_: measurements.append(1) or times)
    for _ in range(2):
        with fourfold.Session(matrix(), placement="measure", cache=tmp_path) as session:
            x = numbers(1)
            np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)
            text = str(session.placement)
        assert ("1000.00 ms on the CPU and 2000.00 ms on the device" in text) == (where == "CPU")
    assert len(measurements) == 1  # the second session reads the cached result


def test_default_placement_does_not_measure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(race, "_times", lambda *_: pytest.fail("no measurement was requested"))
    with fourfold.Session(matrix(), cache=tmp_path) as session:
        assert session.placement.whole


def test_measures_on_a_real_device() -> None:
    with fourfold.Session(matrix(), placement="measure", cache=None) as session:
        x = numbers(2)
        np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)
