"""Commands for a device's queue: recorded anew for each run, since none is taken twice."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import byref, c_uint32, c_uint64, c_void_p
from typing import Any

from fourfold.players.webgpu.binding.calls import give_back
from fourfold.players.webgpu.binding.device import Device
from fourfold.players.webgpu.binding.loader import quick_library
from fourfold.players.webgpu.binding.objects import BindGroup, Buffer, Pipeline, QuerySet
from fourfold.players.webgpu.binding.structures import (
    ComputePassDescriptor,
    LabelDescriptor,
    PassTimestampWrites,
)


class Recording:
    """Launches one after the other, as calls whose arguments are made once.

    The pass is an argument of all of them, and the only one that changes.
    """

    def __init__(self) -> None:
        self._pass = c_void_p()
        self._calls: list[tuple[Any, tuple[Any, ...]]] = []
        self._last: Pipeline | None = None

    def add(self, pipeline: Pipeline, group: BindGroup, groups: Iterable[int]) -> None:
        """One more launch of so many work-groups along each axis."""
        functions = quick_library()
        if pipeline is not self._last:
            given = (self._pass, c_void_p(pipeline.pointer))
            self._calls.append((functions.wgpuComputePassEncoderSetPipeline, given))
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
    """What one submission holds."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pointer: int | None = device.create("CommandEncoder", LabelDescriptor())

    def copy(self, source: Buffer, start: int, target: Buffer, at: int, size: int) -> None:
        """From byte `start` of one buffer to byte `at` of another; all are whole words."""
        if not size:
            return
        places = (source.pointer, start, target.pointer, at, size)
        self._device.call("wgpuCommandEncoderCopyBufferToBuffer", self._pointer, *places)

    def clear(self, buffer: Buffer) -> None:
        """Fill a buffer with zeros."""
        given = (self._pointer, buffer.pointer, 0, buffer.size)
        self._device.call("wgpuCommandEncoderClearBuffer", *given)

    def launch(self, recording: Recording, times: QuerySet | None = None, first: int = 0) -> None:
        """All launches of a recording; when they begin and end goes to two places of `times`."""
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
        given = (self._pointer, times.pointer, 0, times.count, target.pointer, 0)
        self._device.call("wgpuCommandEncoderResolveQuerySet", *given)

    def submit(self) -> c_uint64:
        """Put them into the queue; gives what to wait for."""
        encoder, self._pointer = self._pointer, None
        try:
            finished = self._device.call("wgpuCommandEncoderFinish", encoder, None)
        finally:
            give_back("wgpuCommandEncoderRelease", encoder)
        return self._device.submit(finished)
