"""Sessions, and queues of pyopencl beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from small_networks import small_onnx

import fourfold


@pytest.fixture
def gpu(device: fourfold.DeviceInfo) -> Iterator[fourfold.Session]:
    with fourfold.Session(small_onnx(), device, cache="memory") as made:
        yield made


@pytest.fixture(params=["list", "one"])
def cuda_session(
    request: pytest.FixtureRequest,
    device: fourfold.DeviceInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[fourfold.Session]:
    """For what libraries on a real GPU pass, in both forms of a plan."""
    if device.api != "cuda":
        pytest.skip("--device cuda:0 runs these")
    monkeypatch.setenv("FOURFOLD_LAUNCHES", request.param)
    with fourfold.Session(small_onnx(), device, cache="memory") as made:
        yield made


@pytest.fixture
def queue(gpu: fourfold.Session) -> Any:
    """A queue of pyopencl in the session's own context."""
    cl = pytest.importorskip("pyopencl")
    if gpu.device.api != "opencl":
        pytest.skip("pyopencl has no memory of this device")
    return cl.CommandQueue(cl.Context.from_int_ptr(gpu.context_handle))
