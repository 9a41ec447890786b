"""Commands for a device's queue, recorded again for each run, since they cannot be reused."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import byref, c_uint32, c_uint64, c_void_p
from typing import Any

from fourfold.backends.webgpu.binding.calls import give_back
from fourfold.backends.webgpu.binding.device import Device
from fourfold.backends.webgpu.binding.loader import quick_library
from fourfold.backends.webgpu.binding.objects import BindGroup, Buffer, Pipeline, QuerySet
from fourfold.backends.webgpu.binding.structures import (
    ComputePassDescriptor,
    LabelDescriptor,
    PassTimestampWrites,
)


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
        arguments = (source.pointer, start, target.pointer, at, size)
        self._device.call("wgpuCommandEncoderCopyBufferToBuffer", self._pointer, *arguments)

    def clear(self, buffer: Buffer) -> None:
        """Fill a buffer with zeros."""
        arguments = (self._pointer, buffer.pointer, 0, buffer.size)
        self._device.call("wgpuCommandEncoderClearBuffer", *arguments)

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
        arguments = (self._pointer, times.pointer, 0, times.count, target.pointer, 0)
        self._device.call("wgpuCommandEncoderResolveQuerySet", *arguments)

    def submit(self) -> c_uint64:
        """Submit them to the queue; returns the index to wait for."""
        encoder, self._pointer = self._pointer, None
        try:
            finished = self._device.call("wgpuCommandEncoderFinish", encoder, None)
        finally:
            give_back("wgpuCommandEncoderRelease", encoder)
        return self._device.submit(finished)
