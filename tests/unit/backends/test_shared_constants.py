"""Weights are on a device once for all sessions that use them, and freed with the last."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from allocations import Allocations
from tiny_matrix import WEIGHTS, matrix, numbers
from tiny_plan import line

import fourfold
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.devices import context_of
from fourfold.backends.opencl.player import upload_constants
from fourfold.device import DeviceInfo
from fourfold.plan import CONSTANTS


@pytest.fixture
def allocations(monkeypatch: pytest.MonkeyPatch) -> Allocations:
    return Allocations(monkeypatch)


def is_correct(session: fourfold.Session) -> bool:
    x = numbers(5)
    return np.allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


@pytest.mark.parametrize("cache", ["folder", "memory", None])
def test_sessions_of_one_model_share_weights(
    device: DeviceInfo, tmp_path: Path, allocations: Allocations, cache: str | None
) -> None:
    cache_location = str(tmp_path) if cache == "folder" else cache
    sessions = [fourfold.Session(matrix(), device, cache=cache_location) for _ in range(3)]
    weights, whole = sessions[0].plan.bytes("constants"), sessions[0].plan.device_bytes
    own = whole - weights
    assert allocations.constants == [weights]
    assert allocations.held == weights + 3 * own
    assert len({id(session.plan.constants) for session in sessions}) == 1
    for number, session in enumerate(sessions):
        assert is_correct(session)
        session.close()
        assert allocations.held == (weights + (2 - number) * own if number < 2 else 0)
    with fourfold.Session(matrix(), device, cache=cache_location) as again:
        assert is_correct(again)
        assert allocations.held == whole
    assert allocations.constants == [weights, weights]


def test_shared_weights_outlive_the_first_session(
    device: DeviceInfo, allocations: Allocations
) -> None:
    first = fourfold.Session(matrix(), device, cache=None)
    second = fourfold.Session(matrix(), device, cache=None)
    first.close()
    third = fourfold.Session(matrix(), device, cache=None)
    second.close()
    assert is_correct(third)
    assert allocations.constants == [third.plan.bytes("constants")]
    assert allocations.held == third.plan.device_bytes
    del third
    assert allocations.held == 0


def test_different_weights_are_not_shared(device: DeviceInfo, allocations: Allocations) -> None:
    context, one, other = context_of(device), line(a=2.0).plan, line(a=3.0).plan
    block = one.buffers[CONSTANTS]
    buffers = [upload_constants(context, plan, block) for plan in (one, other, one)]
    assert buffers[0].pointer is buffers[2].pointer is not buffers[1].pointer
    result = np.empty(64, np.uint8)
    cl.Queue(context).read(buffers[1], result)
    assert np.array_equal(result, other.constants)
    assert allocations.constants == [64, 64]


def test_threads_upload_weights_once(device: DeviceInfo, allocations: Allocations) -> None:
    context, plan = context_of(device), line().plan
    held: list[cl.Buffer] = []
    together = threading.Barrier(8)

    def upload() -> None:
        together.wait()
        held.append(upload_constants(context, plan, plan.buffers[CONSTANTS]))

    threads = [threading.Thread(target=upload) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 8
    assert allocations.constants == [64]
