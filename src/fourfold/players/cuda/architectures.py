"""What NVIDIA's architectures can do: facts that hold for every GPU of one, told by its number.

CUDA promises them by the compute capability, so no trial asks for them.
"""

from __future__ import annotations

import platform
import re

from fourfold.device import Fact

LEAST = (7, 5)  # what the kernels need, and what current compilers begin with
KNOWN = ((7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (11, 0), (12, 0))
_INTEGRATED = ((8, 7), (11, 0))  # Jetson's
_MATRIX = (8, 0)  # products of 16 x 8 x 16 halves
ALIGNMENT = 256  # bytes at which the driver lets memory start
LOCAL_MEMORY = 48 << 10  # bytes that a kernel has without asking for more
# KiB that it has if its launches ask.
_ASKED = {(7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 7): 163, (8, 9): 99, (9, 0): 227}
_ASKED |= {(10, 0): 227, (11, 0): 227, (12, 0): 99}
WORK_GROUP = 1024
# Processors that show what they wrote in the order in which they wrote it: kernels that wait for
# the host's flags rest on that.
_ORDERED = ("x86_64", "amd64")


def parse_architecture(text: str) -> tuple[int, int] | None:
    """'sm_87' as (8, 7), 'sm_120' as (12, 0); None for anything else."""
    match = re.fullmatch(r"sm_(\d+)(\d)", text)
    return None if match is None else (int(match[1]), int(match[2]))


def architecture_name(capability: tuple[int, int]) -> str:
    return f"sm_{capability[0]}{capability[1]}"


def older_architectures(capability: tuple[int, int]) -> list[str]:
    """Those whose PTX a GPU can run, the newest first."""
    return [architecture_name(one) for one in reversed(KNOWN) if one < capability]


def runs(architecture: str, code: str) -> bool:
    """Whether a GPU runs code of an older architecture as it is: within a generation it does, but
    for GPUs that are part of a processor, whose code is their own.
    """
    newer, older = parse_architecture(architecture), parse_architecture(code)
    if newer is None or older is None or {newer, older}.intersection(_INTEGRATED):
        return architecture == code
    return newer[0] == older[0] and newer[1] >= older[1]


def most_local_memory(capability: tuple[int, int]) -> int:
    """The bytes of local memory that a group can have where its launch asks for them."""
    return _ASKED.get(capability, LOCAL_MEMORY >> 10) << 10


def is_host_ordered() -> bool:
    """Whether the processor of this machine writes in order."""
    return platform.machine().lower() in _ORDERED


def facts_of(capability: tuple[int, int], cooperates: bool, maps_host: bool) -> dict[str, Fact]:
    """All probed facts of a GPU; whether groups may wait for each other, and whether kernels reach
    host memory that is written in order, its attributes tell, too.
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
