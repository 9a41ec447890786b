"""Device memory that is host memory, and runs that copy through the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fourfold.backends.dlpack_devices import CPU
from fourfold.backends.protocol import Outputs, SameMemory
from fourfold.plan import Port

Run = Callable[[Sequence[np.ndarray], Sequence[np.ndarray | None] | None], Outputs]


class HostMemory:
    """Memory of a device that uses the host's memory."""

    shape: tuple[int, ...] | None = None
    dtype: np.dtype | None = None
    dlpack_device = (CPU, 0)
    read_only = False
    is_same: SameMemory | None = None

    def __init__(self, size: int) -> None:
        self._bytes = np.zeros(size, np.uint8)
        self.size = size
        self.host: np.ndarray | None = self._bytes

    @property
    def handle(self) -> int:
        """Address of the memory."""
        return self._bytes.ctypes.data

    @property
    def place(self) -> tuple[int, int]:
        return self.handle, 0

    def read(self, array: np.ndarray) -> None:
        array.reshape(-1).view(np.uint8)[:] = self._bytes[: array.nbytes]

    def write(self, array: np.ndarray) -> None:
        self._bytes[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def run_through_host(
    run: Run, ports: tuple[Sequence[Port], Sequence[Port]], arrays: Sequence[Any], into: Any
) -> Outputs:
    """Run with a function that accepts only arrays: inputs in device memory are downloaded before,
    outputs are uploaded after.
    """
    inputs, outputs = ports
    inputs_on_host = fetch_inputs(arrays, inputs)
    if into is None:
        return run(inputs_on_host, None)
    pairs = zip(into, outputs, strict=True)
    targets = [_new(port) if _is_memory(target) else target for target, port in pairs]
    results = run(inputs_on_host, targets)
    for result, target in zip(results, into, strict=True):
        if _is_memory(target):
            target.write(result)
    return [
        target if _is_memory(target) else one for one, target in zip(results, into, strict=True)
    ]


def fetch_inputs(arrays: Sequence[Any], ports: Sequence[Port]) -> list[np.ndarray]:
    """Return all inputs as arrays."""
    return [_fetched(one, port) for one, port in zip(arrays, ports, strict=True)]


def _is_memory(given: Any) -> bool:
    return given is not None and not isinstance(given, np.ndarray)


def _fetched(given: Any, port: Port) -> np.ndarray:
    if isinstance(given, np.ndarray):
        return given
    array = _new(port)
    given.read(array)
    return array


def _new(port: Port) -> np.ndarray:
    return np.empty(port.type.shape, port.type.dtype.numpy)
