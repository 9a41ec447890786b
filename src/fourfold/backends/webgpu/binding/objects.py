"""Buffers, pipelines, bind groups and query sets, which `release` frees, and recorded commands.

Commands are recorded again for each run, since WebGPU cannot reuse them.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Sequence
from ctypes import byref, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from fourfold.backends.webgpu.binding.calls import UNKNOWN, Error, give_back, quick_library
from fourfold.backends.webgpu.binding.device import Device
from fourfold.backends.webgpu.binding.structures import (
    BindGroupDescriptor,
    BindGroupEntry,
    BindGroupLayoutDescriptor,
    BindGroupLayoutEntry,
    BufferDescriptor,
    BufferMapCallback,
    CallbackInfo,
    Chained,
    ComputePassDescriptor,
    ComputePipelineDescriptor,
    ComputeState,
    LabelDescriptor,
    PassTimestampWrites,
    PipelineLayoutDescriptor,
    QuerySetDescriptor,
    ShaderSourceWGSL,
    StringView,
)

MAP_READ, MAP_WRITE, COPY_SOURCE, COPY_TARGET = 1, 2, 4, 8
UNIFORM, STORAGE, QUERY_RESOLVE = 0x40, 0x80, 0x200
WORD = 4  # bytes; copies and sizes are multiples of it
_WGSL = 2
_TIMESTAMPS = 2
_COMPUTE = 4  # shader stage that uses the bindings
_UNIFORM, _WRITTEN, _READ = 2, 3, 4  # binding types of a buffer
_SPONTANEOUS = 3
_SUCCESS = 1
_CALLBACK_TIMEOUT_S = 10.0  # for a callback that is running on another thread


class Buffer:
    """Device memory, initialized with zeros."""

    def __init__(self, device: Device, size: int, usage: int) -> None:
        self.device, self.size = device, size
        descriptor = BufferDescriptor(usage=usage, size=size)
        self.pointer: int | None = device.create("Buffer", descriptor)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            # Immediately, even if other objects refer to it.
            give_back("wgpuBufferDestroy", pointer)
            give_back("wgpuBufferRelease", pointer)


class Layout:
    """Bindings of a launch: a uniform buffer, then storage buffers that are written
    or read-only.
    """

    def __init__(self, device: Device, written: Sequence[bool]) -> None:
        types = [_UNIFORM, *(_WRITTEN if one else _READ for one in written)]
        entries = (BindGroupLayoutEntry * len(types))()
        for number, (entry, type_) in enumerate(zip(entries, types, strict=True)):
            entry.binding, entry.visibility, entry.buffer.type = number, _COMPUTE, type_
        group = BindGroupLayoutDescriptor(entryCount=len(types), entries=entries)
        self.group: int = device.create("BindGroupLayout", group)
        groups = (c_void_p * 1)(self.group)
        descriptor = PipelineLayoutDescriptor(bindGroupLayoutCount=1, bindGroupLayouts=groups)
        self.pointer: int | None = device.create("PipelineLayout", descriptor)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            give_back("wgpuPipelineLayoutRelease", pointer)
            give_back("wgpuBindGroupLayoutRelease", self.group)


class Pipeline:
    """A compiled entry point of a module."""

    def __init__(self, device: Device, layout: Layout, text: str, entry: str) -> None:
        """Raise an Error if the text is invalid, or needs more than the device has."""
        self.entry = entry
        source = ShaderSourceWGSL(Chained(None, _WGSL), StringView.of(text))
        module = device.create("ShaderModule", LabelDescriptor(ctypes.addressof(source)))
        try:
            name = StringView.of(entry)
            state = ComputeState(module=module, entryPoint=name)
            descriptor = ComputePipelineDescriptor(layout=layout.pointer, compute=state)
            self.pointer: int | None = device.create("ComputePipeline", descriptor)
        finally:
            give_back("wgpuShaderModuleRelease", module)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            give_back("wgpuComputePipelineRelease", pointer)


class Bound(NamedTuple):
    """A bound range of a buffer."""

    buffer: Buffer
    offset: int
    size: int


class BindGroup:
    """The buffers of one launch, in the order of its layout."""

    def __init__(self, device: Device, layout: Layout, bound: Sequence[Bound]) -> None:
        entries = (BindGroupEntry * len(bound))()
        for number, (entry, one) in enumerate(zip(entries, bound, strict=True)):
            entry.binding, entry.buffer = number, one.buffer.pointer
            entry.offset, entry.size = one.offset, one.size
        descriptor = BindGroupDescriptor(
            layout=layout.group, entryCount=len(bound), entries=entries
        )
        self.pointer: int | None = device.create("BindGroup", descriptor)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            give_back("wgpuBindGroupRelease", pointer)


class QuerySet:
    """Entries for times of the device's clock."""

    def __init__(self, device: Device, count: int) -> None:
        self.count = count
        descriptor = QuerySetDescriptor(type=_TIMESTAMPS, count=count)
        self.pointer: int | None = device.create("QuerySet", descriptor)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            give_back("wgpuQuerySetRelease", pointer)


class Staging(Buffer):
    """A buffer that the host can access while it is mapped, and otherwise the device."""

    def __init__(self, device: Device, size: int, upload: bool) -> None:
        usage = MAP_WRITE | COPY_SOURCE if upload else MAP_READ | COPY_TARGET
        super().__init__(device, size, usage)
        self._mode = MAP_WRITE if upload else MAP_READ
        self._range = "wgpuBufferGetMappedRange" if upload else "wgpuBufferGetConstMappedRange"
        self._answers: list[tuple[int, str]] = []
        self._answered = threading.Event()
        self._called = BufferMapCallback(self._note)
        address = ctypes.cast(self._called, c_void_p).value
        self._info = CallbackInfo(mode=_SPONTANEOUS, callback=address)
        self.asked = self.mapped = False

    def _note(self, status: int, message: StringView, *_: object) -> None:
        self._answers.append((status, str(message) if status != _SUCCESS else ""))
        self._answered.set()

    def ask(self) -> None:
        """Request the mapping, which happens when the device has finished the submitted work."""
        self._answers.clear()
        self._answered.clear()
        self.device.call("wgpuBufferMapAsync", self.pointer, self._mode, 0, self.size, self._info)
        self.asked = True

    def bytes(self) -> np.ndarray:
        """Return its memory until `unmap`; waits for the device if necessary."""
        if not self.mapped:
            if not self.asked:
                self.ask()
            if not self._answers:
                self.device.wait()
                self._answered.wait(_CALLBACK_TIMEOUT_S)  # the callback may run on another thread
            self._take()
        address: int | None = self.device.call(self._range, self.pointer, 0, self.size)
        if not address:
            raise Error(self._range, UNKNOWN, "the buffer is not mapped")
        memory: Any = (ctypes.c_ubyte * self.size).from_address(address)
        return np.frombuffer(memory, np.uint8)

    @property
    def answered(self) -> bool:
        """Return True if the mapping request was answered, or it is mapped."""
        return self.mapped or bool(self._answers)

    def _take(self) -> None:
        status, message = (
            self._answers.pop() if self._answers else (0, "the library did not answer")
        )
        self.asked = False
        if status != _SUCCESS:
            raise Error("wgpuBufferMapAsync", UNKNOWN, message or f"status {status}")
        self.mapped = True

    def unmap(self) -> None:
        """Return it to the device, unless it is not mapped."""
        if self.asked or self.mapped:
            self.asked = self.mapped = False
            self.device.call("wgpuBufferUnmap", self.pointer)


class Recording:
    """A sequence of launches, as calls whose arguments are created once.

    The compute pass is an argument of all of them, and the only one that changes.
    """

    def __init__(self) -> None:
        self._pass = c_void_p()
        self._calls: list[tuple[Any, tuple[Any, ...]]] = []
        self._last: Pipeline | None = None

    def add(self, pipeline: Pipeline, group: BindGroup, groups: Iterable[int]) -> None:
        """Add a launch of this many work-groups along each axis."""
        functions = quick_library()
        if pipeline is not self._last:
            arguments = (self._pass, c_void_p(pipeline.pointer))
            self._calls.append((functions.wgpuComputePassEncoderSetPipeline, arguments))
            self._last = pipeline
        bound = (self._pass, c_uint32(0), c_void_p(group.pointer), ctypes.c_size_t(0), None)
        self._calls.append((functions.wgpuComputePassEncoderSetBindGroup, bound))
        counts = (self._pass, *map(c_uint32, groups))
        self._calls.append((functions.wgpuComputePassEncoderDispatchWorkgroups, counts))

    def put(self, compute_pass: int) -> None:
        self._pass.value = compute_pass
        for function, arguments in self._calls:
            function(*arguments)


class Commands:
    """The commands of one submission."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pointer: int | None = device.create("CommandEncoder", LabelDescriptor())

    def copy(self, source: Buffer, start: int, target: Buffer, at: int, size: int) -> None:
        """Copy from byte `start` of one buffer to byte `at` of another; all are multiples of a
        word.
        """
        if not size:
            return
        self._device.call(
            "wgpuCommandEncoderCopyBufferToBuffer",
            self._pointer,
            source.pointer,
            start,
            target.pointer,
            at,
            size,
        )

    def clear(self, buffer: Buffer) -> None:
        """Fill a buffer with zeros."""
        self._device.call(
            "wgpuCommandEncoderClearBuffer", self._pointer, buffer.pointer, 0, buffer.size
        )

    def launch(self, recording: Recording, times: QuerySet | None = None, first: int = 0) -> None:
        """Add all launches of a recording; their start and end times go to two
        entries of `times`.
        """
        descriptor = None
        if times is not None:
            writes = PassTimestampWrites(None, times.pointer, first, first + 1)
            descriptor = byref(ComputePassDescriptor(timestampWrites=ctypes.pointer(writes)))
        begin, end = "wgpuCommandEncoderBeginComputePass", "wgpuComputePassEncoderEnd"
        compute_pass = self._device.call(begin, self._pointer, descriptor)
        recording.put(compute_pass)
        self._device.call(end, compute_pass)
        give_back("wgpuComputePassEncoderRelease", compute_pass)

    def resolve(self, times: QuerySet, target: Buffer) -> None:
        """Write times into a buffer, eight bytes each."""
        self._device.call(
            "wgpuCommandEncoderResolveQuerySet",
            self._pointer,
            times.pointer,
            0,
            times.count,
            target.pointer,
            0,
        )

    def submit(self) -> c_uint64:
        """Submit them to the queue; returns the index to wait for."""
        encoder, self._pointer = self._pointer, None
        try:
            finished = self._device.call("wgpuCommandEncoderFinish", encoder, None)
        finally:
            give_back("wgpuCommandEncoderRelease", encoder)
        return self._device.submit(finished)
