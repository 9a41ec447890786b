"""Adapters: what WebGPU calls the devices of a machine, as each graphics API offers them."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from functools import cache
from typing import NamedTuple

from fourfold.forks import used
from fourfold.players.webgpu.binding.calls import API, UNKNOWN, Error
from fourfold.players.webgpu.binding.loader import library
from fourfold.players.webgpu.binding.structures import (
    AdapterInfo,
    InstanceDescriptor,
    InstanceExtras,
    Limits,
)

_INSTANCE_EXTRAS = 0x00030004
_OFFERED_BY = 1 << 0 | 1 << 2 | 1 << 3  # Vulkan, Metal, DX12; OpenGL is slow, and loud at its start
PLATFORMS = {4: "DX12", 5: "Metal", 6: "Vulkan"}
DISCRETE, INTEGRATED, SOFTWARE = 1, 2, 3  # kinds of adapters
# Features that a device can be asked for, by the names that WebGPU has for them.
FEATURES = {
    "timestamp-query": 0x00000009,
    "shader-f16": 0x0000000B,
    "subgroups": 0x00030021,
}
_SUCCESS = 1
_MOST_ADAPTERS = 1024  # far more than a machine has


class Adapter(NamedTuple):
    """What is told of an adapter; `pointer` is what the library knows it by."""

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
    """It is never given back: adapters and devices are of it."""
    used.add(API)
    extras = InstanceExtras(backends=_OFFERED_BY)
    extras.chain.sType = _INSTANCE_EXTRAS
    descriptor = InstanceDescriptor(nextInChain=ctypes.addressof(extras))
    found: int | None = library().wgpuCreateInstance(byref(descriptor))
    if not found:
        raise Error("wgpuCreateInstance", UNKNOWN, "it gives no instance")
    return found


def process_events() -> None:
    """Let the library call those who wait for something."""
    library().wgpuInstanceProcessEvents(_instance())


def adapters() -> list[Adapter]:
    """All of them; OSError where the library is not there."""
    # Each call opens every driver, so there is no first one that only asks how many there are.
    found = (c_void_p * _MOST_ADAPTERS)()
    count = library().wgpuInstanceEnumerateAdapters(_instance(), None, found)
    return [_told(pointer) for pointer in found[:count] if pointer]


def _told(pointer: int) -> Adapter:
    info, limits = AdapterInfo(), Limits()
    for name, place in (("Info", info), ("Limits", limits)):
        if getattr(library(), f"wgpuAdapterGet{name}")(pointer, byref(place)) != _SUCCESS:
            raise Error(f"wgpuAdapterGet{name}", UNKNOWN, "an adapter tells nothing")
    has = library().wgpuAdapterHasFeature
    features = frozenset(name for name, number in FEATURES.items() if has(pointer, number))
    told = Adapter(
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
    return told
