"""Who runs what stays on the CPU. An engine is a folder of this package, found by being there: the
runtime that the model's format names, else the ops' definitions in NumPy.
"""

from __future__ import annotations

import os

from fourfold.device import DeviceInfo

# The processor as the target of a whole model; no OpenCL is asked for it.
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
