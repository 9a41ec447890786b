"""A device that does not exist: plans and kernels can be compiled for it, but nothing runs."""

from __future__ import annotations

from fourfold.device import DeviceInfo

NULL_GPU = DeviceInfo(
    name="null",
    vendor="fourfold",
    platform="none",
    driver="0",
    version="OpenCL 1.2",
    kind="gpu",
    compute_units=16,
    memory=1 << 32,
    max_allocation=1 << 30,
    max_work_group=256,
    local_memory=32768,
    alignment=128,
    unified_memory=True,
    half_arithmetic=True,
)
