"""The benchmark of CUDA launches covers every launch mode, on a fake GPU."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import pytest
from small_networks import small_onnx

import fourfold
from fourfold.device import DeviceInfo

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

cuda_launches = pytest.importorskip("cuda_launches")


def test_times_every_launch_mode(cuda: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "one")
    with fourfold.Session(small_onnx(), cuda, cache="memory") as session:
        if session.plan.on_device is None:
            pytest.skip("kernels of this machine's GPUs do not fetch inputs from the host")
        rows = list(cuda_launches.measure(session, 2))
    ways = [(row["built"], row["inputs"], row["put in"]) for row in rows]
    expected = product(("whole", "linked"), ("fetched", "there"), ("graph", "launch"))
    assert ways == list(expected)
    for row in rows:
        assert row["seconds"].keys() == {"flag", "driver", "each"}
        assert all(seconds > 0 for seconds in row["seconds"].values())
