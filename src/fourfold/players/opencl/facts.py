"""Facts of a device as its driver tells them."""

from __future__ import annotations

from functools import cache

from fourfold.device import DeviceInfo
from fourfold.players.opencl import binding as cl

_KINDS = {1 << 2: "gpu", 1 << 1: "cpu"}  # bits of CL_DEVICE_TYPE
_IMAGE_READERS = ("adreno", "qualcomm")  # GPUs whose texture cache others read weights through


def facts_of(device: cl.Device) -> DeviceInfo:
    extensions = device.text(0x1030).split()
    bits = device.number(0x1000)
    maker = f"{device.name} {device.text(0x102C)}".lower()
    kind = next((name for bit, name in _KINDS.items() if bits & bit), "other")
    return DeviceInfo(
        name=device.name,
        vendor=device.text(0x102C),
        platform=device.platform.name,
        driver=device.text(0x102D),
        version=device.text(0x102F),
        kind=kind,
        compute_units=device.number(0x1002),
        memory=device.number(0x101F),
        max_allocation=device.number(0x1010),
        max_work_group=device.number(0x1004),
        local_memory=device.number(0x1023),
        alignment=max(1, device.number(0x1019) // 8),
        half_arithmetic="cl_khr_fp16" in extensions,
        unified_memory=bool(device.number(0x1035)),
        image_texels=device.number(0x1040) if device.number(0x1016) else 0,
        prefers_images=any(word in maker for word in _IMAGE_READERS),
        dot_products=_dot_products(kind, device.platform.name, extensions),
        subgroups=_subgroups(kind, device.platform.name, extensions),
    )


def _dot_products(kind: str, platform: str, extensions: list[str]) -> str:
    """Who may add products of bytes: to be tried before it is relied on."""
    if kind == "cpu":  # where the extension's functions are far slower than floats
        return "x86" if _multiplies_bytes() else ""
    if kind == "gpu" and "nvidia" in platform.lower():
        return "ptx"
    return "khr" if "cl_khr_integer_dot_product" in extensions else ""


def _subgroups(kind: str, platform: str, extensions: list[str]) -> str:
    """Who may exchange numbers between work-items: to be tried before it is relied on."""
    if kind == "gpu" and "nvidia" in platform.lower():
        return "ptx"
    return "khr" if "cl_khr_subgroup_shuffle" in extensions else ""


@cache
def _multiplies_bytes() -> bool:
    """Whether the processor of this machine adds up products of bytes by fours, as Linux tells."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            words = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return False
    return {"avx512_vnni", "avx512vl"} <= set(words)
