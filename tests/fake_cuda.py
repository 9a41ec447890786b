"""CUDA's driver as Python has it: its memory is the host's, its kernels are functions of the host.

It answers as the driver does, keeps count of what is held, and fails where a test says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda_on_host import HostKernels

_UNITS, _INTEGRATED, _MAPS_HOST, _MAJOR, _MINOR, _COOPERATES = 16, 18, 19, 75, 76, 95
_WORK_GROUP, _LOCAL_MEMORY = 1, 8
_OUT_OF_MEMORY = 2
_NO_CODE = 209
Work = Callable[[], None]


def number(given: Any) -> int:
    return int(getattr(given, "value", given) or 0)


class FakeCuda:
    """One GPU. `images` has what the code of each image can do; `failures` is what functions answer
    instead of working, by their names.
    """

    def __init__(
        self,
        capability: tuple[int, int] = (9, 0),
        version: int = 12040,
        memory: int = 1 << 30,
        units: int = 1,
    ) -> None:
        self.version, self.memory = version, memory
        self.failures: dict[str, int] = {}
        self.images: dict[bytes, HostKernels] = {}
        self.held: dict[int, np.ndarray] = {}
        self.launched: list[str] = []
        self.contexts = 0
        self.resident = 1  # groups that a unit holds at once
        self._objects: list[Any] = [None]
        self._captured: list[Work] | None = None
        self._attributes = {
            _UNITS: units,
            _INTEGRATED: 0,
            _MAPS_HOST: 1,
            _MAJOR: capability[0],
            _MINOR: capability[1],
            _COOPERATES: 1,
            _WORK_GROUP: 1024,
            _LOCAL_MEMORY: 48 << 10,
        }

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        work = getattr(self, f"_{name.removesuffix('_v2')}", lambda *arguments: None)

        def answer(*arguments: Any) -> int:
            if name in self.failures:
                return self.failures[name]
            return work(*arguments) or 0

        return answer

    def _new(self, place: Any, item: Any) -> None:
        """An object of the driver is known by its number."""
        self._objects.append(item)
        place._obj.value = len(self._objects) - 1

    def _put(self, work: Work) -> None:
        """A command of a stream: done at once, or a part of the graph that is captured."""
        if self._captured is None:
            work()
        else:
            self._captured.append(work)

    def _cuDeviceGetCount(self, count: Any) -> None:
        count._obj.value = 1

    def _cuDriverGetVersion(self, version: Any) -> None:
        version._obj.value = self.version

    def _cuDeviceGetName(self, text: Any, size: int, device: Any) -> None:
        text.value = b"Imagined GPU"

    def _cuDeviceTotalMem(self, size: Any, device: Any) -> None:
        size._obj.value = self.memory

    def _cuDeviceGetAttribute(self, value: Any, what: int, device: Any) -> None:
        value._obj.value = self._attributes[what]

    def _cuCtxPushCurrent(self, context: Any) -> None:
        self.contexts += 1

    def _cuCtxPopCurrent(self, context: Any) -> None:
        self.contexts -= 1

    def _cuMemAlloc(self, place: Any, size: Any) -> int:
        used = sum(memory.nbytes for memory in self.held.values())
        if used + number(size) > self.memory:
            return _OUT_OF_MEMORY
        whole = np.full(number(size) + 256, 0xFF, np.uint8)
        address = -(-whole.ctypes.data // 256) * 256
        self.held[address] = whole
        place._obj.value = address
        return 0

    def _cuMemFree(self, address: Any) -> None:
        del self.held[number(address)]

    def _cuMemHostAlloc(self, place: Any, size: Any, flags: Any) -> int:
        return self._cuMemAlloc(place, size)

    def _cuMemFreeHost(self, address: Any) -> None:
        self._cuMemFree(address)

    def _cuMemcpyHtoDAsync(self, target: Any, source: Any, size: Any, stream: Any) -> None:
        places = (number(target), number(source), number(size))
        self._put(lambda: void(ctypes.memmove(*places)))

    _cuMemcpyDtoHAsync = _cuMemcpyHtoDAsync  # noqa: N815

    def _cuMemsetD32Async(self, target: Any, word: Any, count: Any, stream: Any) -> None:
        place, words = number(target), np.full(number(count), number(word), np.uint32)
        self._put(lambda: void(ctypes.memmove(place, words.ctypes.data, words.nbytes)))

    def _cuModuleLoadData(self, module: Any, code: Any) -> int:
        kernels = self.images.get(code.value)
        if kernels is None:
            return _NO_CODE
        self._new(module, kernels)
        return 0

    def _cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> None:
        self._new(function, (self._objects[number(module)], name.decode()))

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, count: Any, function: Any, items: int, dynamic: Any
    ) -> None:
        count._obj.value = self.resident

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        kernels, entry = self._objects[number(function)]
        sizes, given = [number(size) for size in rest[:6]], rest[8]

        def work() -> None:
            self.launched.append(entry)
            kernels.launch(entry, sizes[:3], sizes[3:], given)

        self._put(work)

    def _cuStreamBeginCapture(self, stream: Any, mode: int) -> None:
        self._captured = []

    def _cuStreamEndCapture(self, stream: Any, graph: Any) -> None:
        self._new(graph, self._captured)
        self._captured = None

    def _cuGraphInstantiateWithFlags(self, made: Any, graph: Any, flags: Any) -> None:
        self._new(made, self._objects[number(graph)])

    def _cuGraphLaunch(self, graph: Any, stream: Any) -> None:
        for work in self._objects[number(graph)]:
            work()

    def _cuEventElapsedTime(self, time: Any, first: Any, last: Any) -> None:
        time._obj.value = 2.0


def void(_: object) -> None:
    """What a function gave is of no use."""
