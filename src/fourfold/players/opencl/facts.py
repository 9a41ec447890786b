"""Device facts reported by an OpenCL driver, and the features it claims."""

from __future__ import annotations

from functools import cache

from fourfold.device import DeviceInfo
from fourfold.players.claims import claims_of, language_version
from fourfold.players.opencl import binding as cl

_KINDS = {1 << 2: "gpu", 1 << 1: "cpu"}  # bits of CL_DEVICE_TYPE
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
        claims=claims_of(
            f"{device.name} {device.text(0x102C)}",
            device.platform.name,
            kind,
            extensions,
            device.number(0x1040) if device.number(0x1016) else 0,
            _multiplies_bytes() if kind == "cpu" else False,
        ),
        language_version=language_version(version),
        address_bits=device.number(0x100D),
        uuid=device.raw(0x106A).hex() if _UUID in extensions else "",
    )


@cache
def _multiplies_bytes() -> bool:
    """Return True if the CPU has int8 dot product instructions, according to Linux."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            words = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return False
    return {"avx512_vnni", "avx512vl"} <= set(words)
