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


@pytest.fixture
def queue(gpu: fourfold.Session) -> Any:
    """A queue of pyopencl in the session's own context."""
    cl = pytest.importorskip("pyopencl")
    if gpu.device.api != "opencl":
        pytest.skip("pyopencl has no memory of this device")
    return cl.CommandQueue(cl.Context.from_int_ptr(gpu.context_handle))
