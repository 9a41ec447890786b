"""A fake CUDA driver in Python: its memory is host memory, its kernels are host functions.

It answers like the driver, counts held objects, and fails on request. Commands of a stream run when
something waits for them.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda_on_host import HostKernels
from fake_cuda_streams import DEFAULT, FakeEvent, FakeStream, Work, reach, record, wait_for

_UNITS, _INTEGRATED, _MAPS_HOST, _MAJOR, _MINOR, _COOPERATES = 16, 18, 19, 75, 76, 95
_REACHES_PAGEABLE = 88
_WORK_GROUP, _LOCAL_MEMORY, _ASKED_MEMORY = 1, 8, 97
_OUT_OF_MEMORY = 2
_INVALID, _MOST_ASKED = 1, 8
_NO_CODE = 209
_NO_DEVICE = -2
_HOST, _DEVICE = 1, 2
_NO_CONTEXT, _NOT_READY = 201, 600


def number(given: Any) -> int:
    return int(getattr(given, "value", given) or 0)


class FakeCuda:
    """Fake GPUs. `images` maps code to its kernels, `failures` maps function names to error codes,
    and `copied` records transfers between host and device.
    """

    def __init__(
        self,
        capability: tuple[int, int] = (9, 0),
        version: int = 12040,
        memory: int = 1 << 30,
        units: int = 1,
        count: int = 1,
        reaches_pageable: bool = False,
    ) -> None:
        self.version, self.memory, self.count = version, memory, count
        self.failures: dict[str, int] = {}
        self.images: dict[bytes, HostKernels] = {}
        self.held: dict[int, np.ndarray] = {}
        self.sizes: dict[int, tuple[int, int, int]] = {}  # bytes, kind and device by address
        self.launched: list[str] = []
        self.asked: dict[int, int] = {}  # local memory limits of functions
        self.copied: list[tuple[str, int]] = []
        # context stack of each thread
        self._pushed: defaultdict[int, list[int]] = defaultdict(list)
        self.others = 0  # other libraries that hold the primary context
        self.resident = 1  # groups per unit
        self.names: list[str] = []  # called functions
        self._retained, self._lock = 0, threading.RLock()
        self._objects: list[Any] = [None, FakeStream(), FakeStream()]
        self._attributes = {
            _UNITS: units,
            _INTEGRATED: 0,
            _MAPS_HOST: 1,
            _MAJOR: capability[0],
            _MINOR: capability[1],
            _COOPERATES: 1,
            _REACHES_PAGEABLE: int(reaches_pageable),
            _WORK_GROUP: 1024,
            _LOCAL_MEMORY: 48 << 10,
            _ASKED_MEMORY: 227 << 10,
        }

    @property
    def contexts(self) -> int:
        """Number of contexts that are pushed and not popped."""
        return sum(map(len, self._pushed.values()))

    @property
    def current(self) -> list[int]:
        """Context stack of this thread."""
        return self._pushed[threading.get_ident()]

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        work = getattr(self, f"_{name.removesuffix('_v2')}", lambda *arguments: None)

        def answer(*arguments: Any) -> int:
            with self._lock:
                self.names.append(name)
                if name in self.failures:
                    return self.failures[name]
                return work(*arguments) or 0

        return answer

    def _new(self, place: Any, item: Any) -> None:
        """Store an object and return its number as handle."""
        self._objects.append(item)
        place._obj.value = len(self._objects) - 1

    def new_stream(self) -> int:
        """Return the handle of a stream created by another library."""
        self._objects.append(FakeStream())
        return len(self._objects) - 1

    def stream(self, handle: Any) -> FakeStream:
        result = self._objects[number(handle) or DEFAULT]
        assert isinstance(result, FakeStream)
        return result

    def finish_all(self) -> None:
        for one in self._objects:
            if isinstance(one, FakeStream):
                one.finish()

    def _cuDeviceGetCount(self, count: Any) -> None:
        count._obj.value = self.count

    def _cuDeviceGet(self, handle: Any, ordinal: int) -> None:
        handle._obj.value = ordinal

    def _cuDriverGetVersion(self, version: Any) -> None:
        version._obj.value = self.version

    def _cuDeviceGetName(self, text: Any, size: int, device: Any) -> None:
        text.value = b"Imagined GPU"

    def _cuDeviceTotalMem(self, size: Any, device: Any) -> None:
        size._obj.value = self.memory

    def _cuDeviceGetAttribute(self, value: Any, what: int, device: Any) -> None:
        value._obj.value = self._attributes[what]

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> None:
        self._retained += 1
        context._obj.value = 0x1000 + number(device)

    def _cuDevicePrimaryCtxRelease(self, device: Any) -> None:
        self._retained -= 1

    def _cuDevicePrimaryCtxGetState(self, device: Any, flags: Any, active: Any) -> None:
        active._obj.value = int(self._retained + self.others > 0)

    def _cuCtxPushCurrent(self, context: Any) -> None:
        self.current.append(number(context))

    def _cuCtxPopCurrent(self, context: Any) -> None:
        self.current.pop()

    def _cuCtxGetDevice(self, device: Any) -> int:
        if not self.current:
            return _NO_CONTEXT
        device._obj.value = self.current[-1] - 0x1000
        return 0

    def _cuStreamGetCtx(self, stream: Any, context: Any) -> int:
        # default streams exist in every context
        if not self.current and number(stream) in (0, 1, 2):
            return _NO_CONTEXT
        context._obj.value = self.current[-1] if self.current else 0x1000
        return 0

    def _allocate(self, place: Any, size: Any, kind: int) -> int:
        used = sum(memory.nbytes for memory in self.held.values())
        if used + number(size) > self.memory:
            return _OUT_OF_MEMORY
        if not self.current:
            return _NO_CONTEXT
        whole = np.full(number(size) + 256, 0xFF, np.uint8)
        address = -(-whole.ctypes.data // 256) * 256
        self.held[address] = whole
        self.sizes[address] = (number(size), kind, self.current[-1] - 0x1000)
        place._obj.value = address
        return 0

    def _cuMemAlloc(self, place: Any, size: Any) -> int:
        return self._allocate(place, size, _DEVICE)

    def _cuMemHostAlloc(self, place: Any, size: Any, flags: Any) -> int:
        return self._allocate(place, size, _HOST)

    def _cuMemFree(self, address: Any) -> int:
        if not self.current:
            return _NO_CONTEXT
        self.finish_all()
        del self.held[number(address)], self.sizes[number(address)]
        return 0

    _cuMemFreeHost = _cuMemFree  # noqa: N815

    def _cuPointerGetAttributes(self, count: Any, asked: Any, places: Any, address: Any) -> None:
        pointer = number(address)
        result = ((start, *rest) for start, rest in self.sizes.items())
        fits = (
            (s, size, kind, device) for s, size, kind, device in result if s <= pointer < s + size
        )
        start, size, kind, device = next(fits, (0, 0, 0, _NO_DEVICE))
        attributes = {2: (ctypes.c_uint, kind), 9: (ctypes.c_int, device)}
        attributes |= {11: (ctypes.c_ulonglong, start), 12: (ctypes.c_size_t, size)}
        for what, target in zip(asked, places, strict=True):
            form, value = attributes[what]
            form.from_address(target).value = value

    def _copy(self, name: str, target: Any, source: Any, size: Any, stream: Any) -> None:
        operands = (number(target), number(source), number(size))
        kinds = [self._kind(place) for place in operands[:2]]

        def work() -> None:
            if _HOST in kinds:
                self.copied.append((name, operands[2]))
            ctypes.memmove(*operands)

        self.stream(stream).put(work)

    def _kind(self, address: int) -> int:
        result = (
            kind for start, (size, kind, _) in self.sizes.items() if 0 <= address - start < size
        )
        return next(result, _HOST)

    def _cuMemcpyHtoDAsync(self, target: Any, source: Any, size: Any, stream: Any) -> None:
        """Copy to the device; unpinned memory is read before this returns."""
        inputs = ctypes.string_at(number(source), number(size))
        held = ctypes.create_string_buffer(inputs, number(size))
        self._copy("write", target, ctypes.addressof(held), size, stream)
        self.stream(stream).put(lambda: void(held))

    def _cuMemcpyDtoHAsync(self, target: Any, source: Any, size: Any, stream: Any) -> None:
        self._copy("read", target, source, size, stream)

    def _cuMemcpyAsync(self, target: Any, source: Any, size: Any, stream: Any) -> None:
        self._copy("copy", target, source, size, stream)

    def _cuMemsetD32Async(self, target: Any, word: Any, count: Any, stream: Any) -> None:
        place, words = number(target), np.full(number(count), number(word), np.uint32)
        work = lambda: void(ctypes.memmove(place, words.ctypes.data, words.nbytes))  # noqa: E731
        self.stream(stream).put(work)

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

    def _cuFuncSetAttribute(self, function: Any, what: int, value: int) -> None:
        if what == _MOST_ASKED:
            self.asked[number(function)] = value

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        kernels, entry = self._objects[number(function)]
        sizes, inputs = [number(size) for size in rest[:6]], rest[8]
        if number(rest[6]) > self.asked.get(number(function), self._attributes[_LOCAL_MEMORY]):
            return _INVALID

        def work() -> None:
            self.launched.append(entry)
            kernels.launch(entry, sizes[:3], sizes[3:], inputs)

        self.stream(rest[7]).put(work)
        return 0

    _cuLaunchCooperativeKernel = _cuLaunchKernel  # noqa: N815

    def _cuStreamCreate(self, stream: Any, flags: Any) -> None:
        self._new(stream, FakeStream())

    def _cuStreamSynchronize(self, stream: Any) -> None:
        self.stream(stream).finish()

    def _cuStreamQuery(self, stream: Any) -> int:
        return 0 if self.stream(stream).is_idle else _NOT_READY

    def _cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> None:
        wait_for(self.stream(stream), self._objects[number(event)])

    def _cuStreamBeginCapture(self, stream: Any, mode: int) -> None:
        self.stream(stream).captured = []

    def _cuStreamEndCapture(self, stream: Any, graph: Any) -> None:
        one = self.stream(stream)
        captured, one.captured = one.captured, None
        self._new(graph, captured)

    def _cuGraphInstantiateWithFlags(self, made: Any, graph: Any, flags: Any) -> None:
        self._new(made, self._objects[number(graph)])

    def _cuGraphLaunch(self, graph: Any, stream: Any) -> None:
        captured: list[Work] = self._objects[number(graph)]
        for work in captured:
            self.stream(stream).put(work)

    def _cuEventCreate(self, event: Any, flags: Any) -> None:
        self._new(event, FakeEvent())

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        record(self._objects[number(event)], self.stream(stream))

    def _cuEventQuery(self, event: Any) -> None:
        """Report the event as complete."""
        reach(self._objects[number(event)])

    def _cuEventSynchronize(self, event: Any) -> None:
        reach(self._objects[number(event)])

    def _cuEventElapsedTime(self, time: Any, first: Any, last: Any) -> None:
        time._obj.value = 2.0


def void(_: object) -> None:
    """Ignore a result."""
