"""A device that is lost is an error that says so, and the next session works."""

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
        pytest.skip("no driver is called there")


@contextmanager
def failing(
    status: int, monkeypatch: pytest.MonkeyPatch, dead: cl.Context | None
) -> Iterator[None]:
    """While launches fail, and with them all that is made in a context that is dead."""
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


def is_right(session: fourfold.Session) -> bool:
    return np.allclose(session.run(X)["y"], X @ WEIGHTS.T, atol=1e-6)


@pytest.mark.parametrize(
    "status", [NOT_AVAILABLE, OUT_OF_RESOURCES, INVALID_CONTEXT, INVALID_QUEUE]
)
def test_the_next_session_works(
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
            assert is_right(another)
            with fourfold.Session(matrix(), device, cache=None) as third:
                assert is_right(third)


def test_a_launch_that_fails_is_no_loss(
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
        assert is_right(session)


def test_threads_that_open_at_once_share_a_context(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencl, "_contexts", {})
    all_there, found = threading.Barrier(8), []

    def work() -> None:
        all_there.wait()
        found.append(opencl.context_of(device))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
