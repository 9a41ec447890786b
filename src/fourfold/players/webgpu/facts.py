"""What WebGPU tells of a device, and what it promises of one that need not be there."""

from __future__ import annotations

from fourfold.device import PLAIN_UNITS, PROBED, DeviceInfo, Fact
from fourfold.players.webgpu.binding.adapters import INTEGRATED, SOFTWARE, Adapter
from fourfold.players.webgpu.binding.calls import API
from fourfold.players.webgpu.binding.structures import Limits

LANGUAGE, LANGUAGE_VERSION = "wgsl", "1.0"
_KINDS = {SOFTWARE: "other"}  # a processor, for which kernels are written as for a GPU
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
_WORD = 4


def device_info(adapter: Adapter, ordinal: int, version: str) -> DeviceInfo:
    """The facts of an adapter. It tells neither how much memory there is nor how many units."""
    limits = adapter.limits
    return DeviceInfo(
        name=adapter.name or "a GPU",
        vendor=_VENDORS.get(adapter.vendor_id, adapter.vendor or f"{adapter.vendor_id:#x}"),
        platform=adapter.platform,
        driver=adapter.driver or "unknown",
        version=version,
        kind=_KINDS.get(adapter.kind, "gpu"),
        compute_units=0,
        memory=0,
        max_allocation=_largest_buffer(limits),
        max_work_group=limits.maxComputeInvocationsPerWorkgroup,
        local_memory=limits.maxComputeWorkgroupStorageSize,
        alignment=limits.minStorageBufferOffsetAlignment,
        unified_memory=adapter.kind in (INTEGRATED, SOFTWARE),
        claims=_claims(adapter),
        api=API,
        language=LANGUAGE,
        language_version=LANGUAGE_VERSION,
        ordinal=ordinal,
    )


def _largest_buffer(limits: Limits) -> int:
    most: int = min(limits.maxBufferSize, limits.maxStorageBufferBindingSize)
    return most // _WORD * _WORD


def _claims(adapter: Adapter) -> dict[str, Fact]:
    return {
        "half_arithmetic": "shader-f16" in adapter.features,
    }


def any_device(units: int | None) -> DeviceInfo:
    """What every device has, in browsers, too: the default limits of WebGPU."""
    return DeviceInfo(
        name="any WebGPU device",
        vendor="any",
        platform="WebGPU",
        driver="any",
        version="WebGPU 1.0",
        kind="gpu",
        compute_units=units or PLAIN_UNITS,
        memory=0,
        max_allocation=128 << 20,
        max_work_group=256,
        local_memory=16 << 10,
        alignment=256,
        unified_memory=True,
        probed=PROBED,
        api=API,
        language=LANGUAGE,
        language_version=LANGUAGE_VERSION,
        present=False,
    )
