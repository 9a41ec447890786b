"""Facts that WebGPU reports about a device, and guarantees for a generic one."""

from __future__ import annotations

from dataclasses import replace

from fourfold.backends.webgpu.binding.adapter import INTEGRATED, SOFTWARE, Adapter
from fourfold.backends.webgpu.binding.calls import API
from fourfold.backends.webgpu.binding.structures import Limits
from fourfold.device import DEFAULT_COMPUTE_UNITS, PROBED, DeviceInfo, Fact

LANGUAGE, LANGUAGE_VERSION = "wgsl", "1.0"
_VENDORS = {
    0x1002: "AMD",
    0x106B: "Apple",
    0x10DE: "NVIDIA",
    0x10005: "Mesa",
    0x13B5: "Arm",
    0x14E4: "Broadcom",
    0x5143: "Qualcomm",
    0x8086: "Intel",
}
SOFTWARE_UNITS = 8  # a CPU is assumed to have at least this many cores
_WORD = 4
_MAX_BUFFER_BYTES = 2**31 - 1  # kernels count elements with signed 32-bit integers
_ALIGNMENT = 256  # buffers are bound as a whole, so that alignment does not matter


def device_info(adapter: Adapter, ordinal: int, version: str) -> DeviceInfo:
    """Return the facts of an adapter, which reports neither its memory nor its units.

    A software adapter is 'other': a CPU that runs kernels written for a GPU. Its compiler is slow
    for groups with barriers. Without them, loops of a work-item would be so long that some
    implementations stop in the middle of them (see `self_test`).
    """
    limits, software = adapter.limits, adapter.kind == SOFTWARE
    return DeviceInfo(
        name=adapter.name or "a GPU",
        vendor=_VENDORS.get(adapter.vendor_id, adapter.vendor or f"{adapter.vendor_id:#x}"),
        platform=adapter.platform,
        driver=adapter.driver or "unknown",
        version=version,
        kind="other" if software else "gpu",
        compute_units=0,
        memory=0,
        max_allocation=_largest_buffer(limits),
        max_work_group=limits.maxComputeInvocationsPerWorkgroup,
        local_memory=limits.maxComputeWorkgroupStorageSize,
        alignment=_ALIGNMENT,
        unified_memory=adapter.kind in (INTEGRATED, SOFTWARE),
        claims=_claims(adapter),
        api=API,
        language=LANGUAGE,
        language_version=LANGUAGE_VERSION,
        ordinal=ordinal,
    )


def _largest_buffer(limits: Limits) -> int:
    limit: int = min(limits.maxBufferSize, limits.maxStorageBufferBindingSize, _MAX_BUFFER_BYTES)
    return limit // _WORD * _WORD


def _claims(adapter: Adapter) -> dict[str, Fact]:
    return {
        "half_arithmetic": "shader-f16" in adapter.features,
    }


def any_device(units: int | None) -> DeviceInfo:
    """Return what every GPU has, also in browsers: the default limits of WebGPU."""
    return DeviceInfo(
        name="any WebGPU device",
        vendor="any",
        platform="WebGPU",
        driver="any",
        version="WebGPU 1.0",
        kind="gpu",
        compute_units=units or DEFAULT_COMPUTE_UNITS,
        memory=0,
        max_allocation=128 << 20,
        max_work_group=256,
        local_memory=16 << 10,
        alignment=_ALIGNMENT,
        unified_memory=True,
        probed=PROBED,
        api=API,
        language=LANGUAGE,
        language_version=LANGUAGE_VERSION,
        present=False,
    )


def any_software(units: int | None) -> DeviceInfo:
    """Return a generic device for software rendering, as in browsers: without local memory, for
    which software compilers take many times as long.
    """
    name = "any WebGPU software"
    cores = units or SOFTWARE_UNITS
    return replace(any_device(cores), name=name, kind="other", local_memory=0)


BOARDS = {"any": any_device, "software": any_software}  # by the names that select them
