"""Fixtures: sessions, and pyopencl queues in the context of a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from small_networks import small_onnx

import fourfold


@pytest.fixture
def gpu(device: fourfold.DeviceInfo) -> Iterator[fourfold.Session]:
    with fourfold.Session(small_onnx(), device, cache="memory") as session:
        yield session


@pytest.fixture(params=["list", "one"])
def cuda_session(
    request: pytest.FixtureRequest,
    device: fourfold.DeviceInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[fourfold.Session]:
    """Yield a session on a real GPU for arrays of other libraries, in both plan forms."""
    if device.api != "cuda":
        pytest.skip("these tests need --device cuda:0")
    monkeypatch.setenv("FOURFOLD_LAUNCHES", request.param)
    with fourfold.Session(small_onnx(), device, cache="memory") as session:
        yield session


@pytest.fixture
def queue(gpu: fourfold.Session) -> Any:
    """Return a pyopencl queue in the session's context."""
    cl = pytest.importorskip("pyopencl")
    if gpu.device.api != "opencl":
        pytest.skip("pyopencl has no memory of this device")
    return cl.CommandQueue(cl.Context.from_int_ptr(gpu.context_handle))
