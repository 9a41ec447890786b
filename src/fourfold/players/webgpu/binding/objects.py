"""Buffers, pipelines, bind groups and query sets; `release` frees each of them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_void_p
from typing import NamedTuple

from fourfold.players.webgpu.binding.calls import give_back
from fourfold.players.webgpu.binding.device import Device
from fourfold.players.webgpu.binding.structures import (
    BindGroupDescriptor,
    BindGroupEntry,
    BindGroupLayoutDescriptor,
    BindGroupLayoutEntry,
    BufferDescriptor,
    Chained,
    ComputePipelineDescriptor,
    ComputeState,
    LabelDescriptor,
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
