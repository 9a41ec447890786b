"""Who runs nodes on the CPU: LiteRT where it is installed, else the NumPy references."""

from __future__ import annotations

import os

from fourfold.device import DeviceInfo

# The processor as a place for a whole model; no OpenCL is asked for it.
CPU = DeviceInfo(
    name="CPU",
    vendor="",
    platform="LiteRT or NumPy",
    driver="-",
    version="",
    kind="cpu",
    compute_units=os.cpu_count() or 1,
    memory=0,
    max_allocation=0,
    max_work_group=1,
    local_memory=0,
    alignment=64,
    unified_memory=True,
)
