"""Facts of a device as its driver tells them, and what it claims beyond them."""

from __future__ import annotations

from functools import cache

from fourfold.device import DeviceInfo, Fact
from fourfold.players.opencl import binding as cl

_KINDS = {1 << 2: "gpu", 1 << 1: "cpu"}  # bits of CL_DEVICE_TYPE
_IMAGE_READERS = ("adreno", "qualcomm")  # GPUs whose texture cache others read weights through
_UUID = "cl_khr_device_uuid"


def facts_of(device: cl.Device) -> DeviceInfo:
    extensions = device.text(0x1030).split()
    bits, version = device.number(0x1000), device.text(0x102F)
    kind = next((name for bit, name in _KINDS.items() if bits & bit), "other")
    return DeviceInfo(
        name=device.name,
        vendor=device.text(0x102C),
        platform=device.platform.name,
        driver=device.text(0x102D),
        version=version,
        kind=kind,
        compute_units=device.number(0x1002),
        memory=device.number(0x101F),
        max_allocation=device.number(0x1010),
        max_work_group=device.number(0x1004),
        local_memory=device.number(0x1023),
        alignment=max(1, device.number(0x1019) // 8),
        unified_memory=bool(device.number(0x1035)),
        claims=_claims(device, kind, extensions),
        language_version=_language_version(version),
        address_bits=device.number(0x100D),
        uuid=device.raw(0x106A).hex() if _UUID in extensions else "",
    )


def _language_version(version: str) -> str:
    """Of OpenCL C: an OpenCL 3.0 device takes it in version 3.0. The text begins 'OpenCL 3.0 '."""
    words = version.split()
    known = len(words) > 1 and words[1].replace(".", "", 1).isdigit()
    return words[1] if known else "1.2"


def _claims(device: cl.Device, kind: str, extensions: list[str]) -> dict[str, Fact]:
    """What the device may be able to do: to be tried before it is relied on."""
    maker, platform = f"{device.name} {device.text(0x102C)}".lower(), device.platform.name.lower()
    nvidia = kind == "gpu" and "nvidia" in platform
    return {
        "half_arithmetic": "cl_khr_fp16" in extensions,
        "matrix_units": nvidia or (kind == "gpu" and "nvidia" in maker),
        "subgroups": _subgroups(nvidia, extensions),
        "dot_products": _dot_products(kind, nvidia, extensions),
        "image_texels": device.number(0x1040) if device.number(0x1016) else 0,
        "prefers_images": any(word in maker for word in _IMAGE_READERS),
    }


def _dot_products(kind: str, nvidia: bool, extensions: list[str]) -> str:
    if kind == "cpu":  # where the extension's functions are far slower than floats
        return "x86" if _multiplies_bytes() else ""
    if nvidia:
        return "ptx"
    return "khr" if "cl_khr_integer_dot_product" in extensions else ""


def _subgroups(nvidia: bool, extensions: list[str]) -> str:
    if nvidia:
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
