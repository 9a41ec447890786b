"""Backends that run operators on the CPU.

Each engine is a subpackage: the runtime of the model's format, or the operators' definitions in
NumPy.
"""

from __future__ import annotations

import os

from fourfold.device import DeviceInfo

# The CPU as the target of a whole model, without OpenCL.
CPU = DeviceInfo(
    name="CPU",
    vendor="",
    platform="host",
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
