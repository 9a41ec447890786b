"""A lost device raises an error that says so, and the next session works."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import devices as opencl
from fourfold.backends.opencl.binding import calls
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError

X = numbers(1)
NOT_AVAILABLE, OUT_OF_RESOURCES, INVALID_CONTEXT, INVALID_QUEUE = -2, -5, -34, -36


@pytest.fixture(autouse=True)
def _only_drivers(device: DeviceInfo) -> None:
    if device.api != "opencl":
        pytest.skip("the device calls no OpenCL driver")


@contextmanager
def failing(
    status: int, monkeypatch: pytest.MonkeyPatch, dead: cl.Context | None
) -> Iterator[None]:
    """Make launches fail, and all calls in a dead context."""
    make = calls.make

    def make_in_context(name: str, context: Any, *arguments: Any) -> Any:
        if dead is not None and context is dead.pointer:
            raise cl.Error(name, status)
        return make(name, context, *arguments)

    def replay(self: cl.Queue, _calls: object) -> None:
        raise cl.Error("clEnqueueNDRangeKernel", status)

    with monkeypatch.context() as patch:
        patch.setattr(cl.Queue, "replay", replay)
        for module in ("objects", "queue"):
            patch.setattr(f"fourfold.backends.opencl.binding.{module}.make", make_in_context)
        yield


def is_correct(session: fourfold.Session) -> bool:
    return np.allclose(session.run(X)["y"], X @ WEIGHTS.T, atol=1e-6)


@pytest.mark.parametrize(
    "status", [NOT_AVAILABLE, OUT_OF_RESOURCES, INVALID_CONTEXT, INVALID_QUEUE]
)
def test_next_session_works_after_a_lost_device(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    before = opencl.context_of(device)
    with fourfold.Session(matrix(), device, cache=None) as session:
        with (
            failing(status, monkeypatch, dead=before),
            pytest.raises(DeviceError, match="lost while running") as caught,
        ):
            session.run(X)
        assert f"({status})" in caught.value.why
        with fourfold.Session(matrix(), device, cache=None) as another:
            assert opencl.context_of(device) is not before
            assert is_correct(another)
            with fourfold.Session(matrix(), device, cache=None) as third:
                assert is_correct(third)


def test_failed_launch_keeps_the_device(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opencl.context_of(device)
    with fourfold.Session(matrix(), device, cache=None) as session:
        with (
            failing(OUT_OF_RESOURCES, monkeypatch, dead=None),
            pytest.raises(DeviceError) as caught,
        ):
            session.run(X)
        assert "out of memory" in caught.value.what
        assert opencl.context_of(device) is before
        assert is_correct(session)


def test_threads_share_one_context(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl, "_contexts", {})
    all_there, result = threading.Barrier(8), []

    def work() -> None:
        all_there.wait()
        result.append(opencl.context_of(device))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == 8
    assert len(set(result)) == 1
