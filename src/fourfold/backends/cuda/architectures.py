"""Features of NVIDIA's architectures, which hold for every GPU of a compute capability.

CUDA guarantees them, so they are not probed.
"""

from __future__ import annotations

import platform
import re

from fourfold.device import Fact

MIN_CAPABILITY = (7, 5)  # required by the kernels, and the oldest that current compilers support
KNOWN = ((7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (11, 0), (12, 0))
_INTEGRATED = ((8, 7), (11, 0))  # Jetson
_MATRIX = (8, 0)  # matrix products of 16 x 8 x 16 fp16
ALIGNMENT = 256  # bytes; alignment of the driver's allocations
LOCAL_MEMORY = 48 << 10  # bytes available to a kernel by default
# KiB available to a kernel whose launches request them.
_ASKED = {(7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 7): 163, (8, 9): 99, (9, 0): 227}
_ASKED |= {(10, 0): 227, (11, 0): 227, (12, 0): 99}
WORK_GROUP = 1024
# CPUs whose writes become visible in program order: kernels that wait for flags of the host rely on
# that.
_ORDERED = ("x86_64", "amd64")


def parse_architecture(text: str) -> tuple[int, int] | None:
    """Parse 'sm_87' as (8, 7), 'sm_120' as (12, 0); None for anything else."""
    match = re.fullmatch(r"sm_(\d+)(\d)", text)
    return None if match is None else (int(match[1]), int(match[2]))


def architecture_name(capability: tuple[int, int]) -> str:
    return f"sm_{capability[0]}{capability[1]}"


def older_architectures(capability: tuple[int, int]) -> list[str]:
    """Return the architectures whose PTX a GPU can run, newest first."""
    return [architecture_name(one) for one in reversed(KNOWN) if one < capability]


def runs(architecture: str, code: str) -> bool:
    """Return True if a GPU runs code of an older architecture directly.

    This holds within a generation, except for integrated GPUs, which only run their own code.
    """
    newer, older = parse_architecture(architecture), parse_architecture(code)
    if newer is None or older is None or {newer, older}.intersection(_INTEGRATED):
        return architecture == code
    return newer[0] == older[0] and newer[1] >= older[1]


def max_local_memory(capability: tuple[int, int]) -> int:
    """Return the local memory in bytes that a work-group can have if its launch requests it."""
    return _ASKED.get(capability, LOCAL_MEMORY >> 10) << 10


def is_host_ordered() -> bool:
    """Return True if the CPU of this machine writes in program order."""
    return platform.machine().lower() in _ORDERED


def facts_of(capability: tuple[int, int], cooperates: bool, maps_host: bool) -> dict[str, Fact]:
    """Return all probed facts of a GPU.

    `cooperates` is whether work-groups may wait for each other; `maps_host` is whether kernels
    reach host memory that is written in order.
    """
    matrix = capability >= _MATRIX
    resident = matrix and cooperates
    return {
        "half_arithmetic": True,
        "dot_products": "ptx",
        "subgroups": "ptx",
        "matrix_units": matrix,
        "self_test": "",
        "persistent_mapping": False,
        "host_pointers": False,
        "forward_progress": False,
        "resident": resident,
        "reaches_host": resident and maps_host,
        "image_texels": 0,
        "image_windows": False,
        "prefers_images": False,
    }
