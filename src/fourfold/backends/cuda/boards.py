"""Boards that are not attached: facts by architecture, to prepare models without a GPU.

The architecture does not determine the number of units. A plan that runs as one launch needs as
many units as it was compiled for and leaves additional ones idle. Each row therefore has the
smallest number of its architecture; the caller can pass the actual one.
"""

from __future__ import annotations

from typing import NamedTuple

from fourfold.backends.cuda.architectures import (
    ALIGNMENT,
    LOCAL_MEMORY,
    WORK_GROUP,
    facts_of,
    max_local_memory,
    parse_architecture,
)
from fourfold.device import PROBED, DeviceInfo
from fourfold.errors import InputError, nearest


class Board(NamedTuple):
    """The smallest boards of an architecture: units, memory in GiB, and whether it is shared with
    the host, which then is an ARM CPU on the same chip.
    """

    units: int
    memory: int
    unified: bool
    examples: str


BOARDS = {
    "sm_75": Board(14, 4, False, "GTX 16, RTX 20, T4"),
    "sm_80": Board(56, 24, False, "A30, A100"),
    "sm_86": Board(16, 4, False, "RTX 30, A10, A40"),
    "sm_87": Board(4, 4, True, "Jetson Orin Nano, NX, AGX"),
    "sm_89": Board(20, 6, False, "RTX 40, L4, L40"),
    "sm_90": Board(114, 80, False, "H100, H200"),
    "sm_100": Board(132, 180, False, "B200"),
    "sm_110": Board(12, 64, True, "Jetson Thor"),
    "sm_120": Board(20, 8, False, "RTX 50"),
}


def find_board(name: str, units: int | None = None) -> DeviceInfo | None:
    """Return the board of an architecture such as 'sm_87'; None for any other name."""
    capability = parse_architecture(name)
    if capability is None:
        return None
    if name not in BOARDS:
        supported = ", ".join(f"cuda:{one} ({board.examples})" for one, board in BOARDS.items())
        what, why = f"unknown board cuda:{name}", f"supported boards are {supported}"
        raise InputError(what, why, nearest(f"cuda:{name}", [f"cuda:{one}" for one in BOARDS]))
    board = BOARDS[name]
    # The CPU next to a discrete GPU is nearly always x86, which writes in order. If it is not, the
    # device reports so, and a generic plan or the compiler is used.
    facts = facts_of(capability, cooperates=True, maps_host=not board.unified)
    info = DeviceInfo(
        name=f"any {name}",
        vendor="NVIDIA",
        platform="CUDA",
        driver="any",
        version=name,
        kind="gpu",
        compute_units=units or board.units,
        memory=board.memory << 30,
        max_allocation=board.memory << 29,
        max_work_group=WORK_GROUP,
        local_memory=LOCAL_MEMORY,
        asked_local_memory=max_local_memory(capability),
        alignment=ALIGNMENT,
        unified_memory=board.unified,
        api="cuda",
        language="cuda",
        language_version=f"{capability[0]}.{capability[1]}",
        architectures=(name,),
        present=False,
    )
    assert facts.keys() == set(PROBED)
    return info.with_facts(facts)
