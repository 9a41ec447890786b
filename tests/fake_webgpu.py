"""A fake wgpu-native in Python: its memory is host memory, its kernels are Python functions.

It answers like the library, counts held objects, and fails on request.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from fourfold.backends.webgpu.binding import structures as st

VERSION = 29 << 24 | 1 << 8
SOFTWARE, VULKAN = 3, 6
VALIDATION, OUT_OF_MEMORY = 2, 3
SUCCESS = 1
Kernel = Callable[[np.ndarray, list[np.ndarray], tuple[int, ...]], None]


def number(given: Any) -> int:
    return int(getattr(given, "value", given) or 0)


class FakeWebGpu:
    """One fake adapter. `kernels` maps entry points to functions of words, buffers and group
    counts; `failures` maps function names to errors.
    """

    def __init__(self, kernels: dict[str, Kernel], features: tuple[int, ...] = (9,)) -> None:
        self.kernels, self.features = kernels, features
        self.failures: dict[str, tuple[int, str]] = {}
        self.held: dict[int, Any] = {}
        self.launched: list[str] = []
        self.submitted = 0
        self.version = VERSION
        self._count = 0
        self._waiting: list[Callable[[], None]] = []
        self._on_error: Any = None
        self._on_lost: Any = None
        self._tick = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("wgpu"):
            raise AttributeError(name)
        if name.endswith("Release"):
            return lambda pointer: self.held.pop(pointer, None)
        work = getattr(self, f"_{name}", lambda *arguments: None)

        def answer(*arguments: Any) -> Any:
            if name in self.failures:
                kind, message = self.failures[name]
                self._on_error(None, kind, st.StringView.of(message), None, None)
                return self._new(None)
            return work(*arguments)

        return answer

    def lose(self) -> None:
        self._on_lost(None, 1, st.StringView.of("it fell off the bus"), None, None)

    def _new(self, item: Any) -> int:
        self._count += 1
        self.held[self._count] = item
        return self._count

    def of_kind(self, kind: type) -> list[Any]:
        return [item for item in self.held.values() if isinstance(item, kind)]

    def _wgpuGetVersion(self) -> int:
        return self.version

    def _wgpuCreateInstance(self, _descriptor: Any) -> int:
        return self._new("an instance")

    def _wgpuInstanceEnumerateAdapters(self, _instance: int, _: Any, found: Any) -> int:
        found[0] = self._new("an adapter")
        return 1

    def _wgpuAdapterGetInfo(self, _adapter: int, place: Any) -> int:
        info = place._obj
        info.device, info.vendor = st.StringView.of("Imagined GPU"), st.StringView.of("nobody")
        info.backendType, info.adapterType = VULKAN, SOFTWARE
        return SUCCESS

    def _wgpuAdapterGetLimits(self, _adapter: int, place: Any) -> int:
        limits = place._obj
        limits.maxBufferSize = limits.maxStorageBufferBindingSize = (1 << 20) - 1
        limits.maxComputeInvocationsPerWorkgroup = 256
        limits.maxComputeWorkgroupStorageSize = 16384
        limits.minStorageBufferOffsetAlignment = 32
        return SUCCESS

    def _wgpuAdapterHasFeature(self, _adapter: int, feature: int) -> int:
        return int(feature in self.features)

    def _wgpuAdapterRequestDevice(self, _adapter: int, place: Any, info: Any) -> int:
        descriptor = place._obj
        self._on_lost = st.DeviceCallback(descriptor.deviceLostCallbackInfo.callback)
        self._on_error = st.DeviceCallback(descriptor.uncapturedErrorCallbackInfo.callback)
        result = self._new("a device")
        st.RequestDeviceCallback(info.callback)(SUCCESS, result, st.StringView.of(""), None, None)
        return 0

    def _wgpuDeviceGetQueue(self, _device: int) -> int:
        return self._new("a queue")

    def _wgpuDeviceCreateBuffer(self, _device: int, place: Any) -> int:
        assert place._obj.size % 4 == 0
        return self._new(np.zeros(place._obj.size, np.uint8))

    def _wgpuDeviceCreateShaderModule(self, _device: int, place: Any) -> int:
        source = st.ShaderSourceWGSL.from_address(place._obj.nextInChain)
        return self._new(str(source.code))

    def _wgpuDeviceCreateComputePipeline(self, _device: int, place: Any) -> int:
        entry = str(place._obj.compute.entryPoint)
        assert f"fn {entry}(" in self.held[place._obj.compute.module]
        return self._new((entry, self.kernels[entry]))

    def _wgpuDeviceCreateBindGroupLayout(self, _device: int, place: Any) -> int:
        return self._new([place._obj.entries[n].buffer.type for n in range(place._obj.entryCount)])

    def _wgpuDeviceCreatePipelineLayout(self, _device: int, _place: Any) -> int:
        return self._new("a layout")

    def _wgpuDeviceCreateBindGroup(self, _device: int, place: Any) -> int:
        descriptor = place._obj
        entries = [descriptor.entries[n] for n in range(descriptor.entryCount)]
        assert len(entries) == len(self.held[descriptor.layout])
        assert [entry.binding for entry in entries] == list(range(len(entries)))
        return self._new([(one.buffer, one.offset, one.size) for one in entries])

    def _wgpuDeviceCreateQuerySet(self, _device: int, place: Any) -> int:
        return self._new(np.zeros(place._obj.count, np.uint64))

    def _wgpuDeviceCreateCommandEncoder(self, _device: int, _place: Any) -> int:
        return self._new([])

    def _wgpuCommandEncoderBeginComputePass(self, encoder: int, place: Any) -> int:
        writes = None if place is None else place._obj.timestampWrites.contents
        return self._new({"work": self.held[encoder], "writes": writes})

    def _wgpuComputePassEncoderSetPipeline(self, given: Any, pipeline: Any) -> None:
        self.held[number(given)]["pipeline"] = number(pipeline)

    def _wgpuComputePassEncoderSetBindGroup(
        self, given: Any, _index: Any, group: Any, *_: Any
    ) -> None:
        self.held[number(given)]["group"] = number(group)

    def _wgpuComputePassEncoderDispatchWorkgroups(self, given: Any, *counts: Any) -> None:
        state = dict(self.held[number(given)])
        groups = tuple(map(number, counts))
        state["work"].append(lambda: self._launch(state, groups))

    def _launch(self, state: dict[str, Any], groups: tuple[int, ...]) -> None:
        entry, kernel = self.held[state["pipeline"]]
        bound = [
            self.held[pointer][offset : offset + size]
            for pointer, offset, size in self.held[state["group"]]
        ]
        self.launched.append(entry)
        kernel(bound[0].view(np.int32), bound[1:], groups)
        if state["writes"] is not None:
            times = self.held[state["writes"].querySet]
            first = state["writes"].beginningOfPassWriteIndex
            times[first : first + 2] = self._tick, self._tick + 1000
            self._tick += 1000

    def _wgpuCommandEncoderCopyBufferToBuffer(
        self, encoder: int, source: int, start: int, target: int, at: int, size: int
    ) -> None:
        assert all(one % 4 == 0 for one in (start, at, size))

        def copy() -> None:
            self.held[target][at : at + size] = self.held[source][start : start + size]

        self.held[encoder].append(copy)

    def _wgpuCommandEncoderResolveQuerySet(
        self, encoder: int, times: int, _first: int, count: int, target: int, _offset: int
    ) -> None:
        def resolve() -> None:
            self.held[target].view(np.uint64)[:count] = self.held[times][:count]

        self.held[encoder].append(resolve)

    def _wgpuCommandEncoderFinish(self, encoder: int, _: Any) -> int:
        return self._new(list(self.held[encoder]))

    def _wgpuQueueSubmitForIndex(self, _queue: int, _count: int, commands: Any) -> int:
        for work in self.held[commands[0]]:
            work()
        self.submitted += 1
        return self.submitted

    def _wgpuQueueWriteBuffer(
        self, _queue: int, buffer: int, offset: int, address: int, size: int
    ) -> None:
        assert all(one % 4 == 0 for one in (offset, size))
        self.held[buffer][offset : offset + size] = np.frombuffer(
            ctypes.string_at(address, size), np.uint8
        )

    def _wgpuQueueGetTimestampPeriod(self, _queue: int) -> float:
        return 2.0

    def _wgpuBufferMapAsync(
        self, _buffer: int, _mode: int, _offset: int, _size: int, info: Any
    ) -> int:
        called = st.BufferMapCallback(info.callback)
        self._waiting.append(lambda: called(SUCCESS, st.StringView.of(""), None, None))
        return 0

    def _wgpuDevicePoll(self, _device: int, _wait: int, _index: Any) -> int:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
        return 1

    def _wgpuBufferGetMappedRange(self, buffer: int, _offset: int, _size: int) -> int:
        return int(self.held[buffer].ctypes.data)

    _wgpuBufferGetConstMappedRange = _wgpuBufferGetMappedRange  # noqa: N815
