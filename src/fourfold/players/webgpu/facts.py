"""What WebGPU tells of a device, and what it promises of one that need not be there."""

from __future__ import annotations

from dataclasses import replace

from fourfold.device import PLAIN_UNITS, PROBED, DeviceInfo, Fact
from fourfold.players.webgpu.binding.adapter import INTEGRATED, SOFTWARE, Adapter
from fourfold.players.webgpu.binding.calls import API
from fourfold.players.webgpu.binding.structures import Limits

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
SOFTWARE_UNITS = 8  # of which a processor has one for each core at least
_WORD = 4
_MOST_BYTES = 2**31 - 1  # of a buffer: kernels count elements in 32 bits with a sign
_ALIGNMENT = 256  # of buffers, which are bound whole: how parts of them could be does not matter


def device_info(adapter: Adapter, ordinal: int, version: str) -> DeviceInfo:
    """The facts of an adapter. It tells neither how much memory there is nor how many units.

    A software adapter is 'other': a processor, for which kernels are written as for a GPU. Groups
    that meet take its compiler long; without them a work-item's loops would be so long that some
    stop in the middle of them (`self_test` has the word).
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
    most: int = min(limits.maxBufferSize, limits.maxStorageBufferBindingSize, _MOST_BYTES)
    return most // _WORD * _WORD


def _claims(adapter: Adapter) -> dict[str, Fact]:
    return {
        "half_arithmetic": "shader-f16" in adapter.features,
    }


def any_device(units: int | None) -> DeviceInfo:
    """What every GPU has, in browsers, too: the default limits of WebGPU."""
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
        alignment=_ALIGNMENT,
        unified_memory=True,
        probed=PROBED,
        api=API,
        language=LANGUAGE,
        language_version=LANGUAGE_VERSION,
        present=False,
    )


def any_software(units: int | None) -> DeviceInfo:
    """The same where a processor stands for the GPU, as it does in browsers: without groups that
    meet, for which compilers of software take many times as long.
    """
    name = "any WebGPU software"
    cores = units or SOFTWARE_UNITS
    return replace(any_device(cores), name=name, kind="other", local_memory=0)


BOARDS = {"any": any_device, "software": any_software}  # by the names that they are asked for
