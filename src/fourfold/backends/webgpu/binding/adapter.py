"""Adapters: the devices of a machine, as offered by each graphics API."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from functools import cache
from typing import NamedTuple

from fourfold.backends.webgpu.binding.calls import API, UNKNOWN, Error, library
from fourfold.backends.webgpu.binding.structures import (
    AdapterInfo,
    InstanceDescriptor,
    InstanceExtras,
    Limits,
)
from fourfold.support.forks import used

_INSTANCE_EXTRAS = 0x00030004
# Vulkan, Metal, DX12; OpenGL is slow, and prints messages at its start.
_BACKENDS = 1 << 0 | 1 << 2 | 1 << 3
PLATFORMS = {4: "DX12", 5: "Metal", 6: "Vulkan"}
DISCRETE, INTEGRATED, SOFTWARE = 1, 2, 3  # adapter types
# Optional features of a device, by their WebGPU names.
FEATURES = {
    "timestamp-query": 0x00000009,
    "shader-f16": 0x0000000B,
    "subgroups": 0x00030021,
}
_SUCCESS = 1
_MAX_ADAPTERS = 1024  # far more than a machine has


class Adapter(NamedTuple):
    """Properties of an adapter; `pointer` is its handle in the library."""

    pointer: int
    name: str
    vendor: str
    driver: str
    platform: str
    kind: int
    vendor_id: int
    features: frozenset[str]
    limits: Limits


@cache
def _instance() -> int:
    """Create the instance, which is never released, since adapters and devices belong to it."""
    used.add(API)
    extras = InstanceExtras(backends=_BACKENDS)
    extras.chain.sType = _INSTANCE_EXTRAS
    descriptor = InstanceDescriptor(nextInChain=ctypes.addressof(extras))
    instance: int | None = library().wgpuCreateInstance(byref(descriptor))
    if not instance:
        raise Error("wgpuCreateInstance", UNKNOWN, "it returned no instance")
    return instance


def process_events() -> None:
    """Let the library run its pending callbacks."""
    library().wgpuInstanceProcessEvents(_instance())


def adapters() -> list[Adapter]:
    """Return all adapters; raises OSError if the library is not installed."""
    # Each call opens every driver, so the count is not queried first.
    pointers = (c_void_p * _MAX_ADAPTERS)()
    count = library().wgpuInstanceEnumerateAdapters(_instance(), None, pointers)
    return [_adapter(pointer) for pointer in pointers[:count] if pointer]


def _adapter(pointer: int) -> Adapter:
    info, limits = AdapterInfo(), Limits()
    for name, structure in (("Info", info), ("Limits", limits)):
        if getattr(library(), f"wgpuAdapterGet{name}")(pointer, byref(structure)) != _SUCCESS:
            raise Error(f"wgpuAdapterGet{name}", UNKNOWN, "the adapter returned nothing")
    has = library().wgpuAdapterHasFeature
    features = frozenset(name for name, number in FEATURES.items() if has(pointer, number))
    adapter = Adapter(
        pointer=pointer,
        name=str(info.device),
        vendor=str(info.vendor),
        driver=str(info.description),
        platform=PLATFORMS.get(info.backendType, ""),
        kind=info.adapterType,
        vendor_id=info.vendorID,
        features=features,
        limits=limits,
    )
    library().wgpuAdapterInfoFreeMembers(info)
    return adapter
