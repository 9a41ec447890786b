"""Boards that are not there: facts by architecture, to prepare models for them without any GPU.

How many units a board has no architecture tells. A plan that runs as one launch needs as many units
as it was made for, and leaves those beyond idle: each row has the fewest that boards of its
architecture have, and who knows better says so.
"""

from __future__ import annotations

from typing import NamedTuple

from fourfold.device import PROBED, DeviceInfo
from fourfold.errors import InputError, nearest
from fourfold.players.cuda.architectures import (
    ALIGNMENT,
    LOCAL_MEMORY,
    WORK_GROUP,
    facts_of,
    most_local_memory,
    parse_architecture,
)


class Board(NamedTuple):
    """What the smallest boards of an architecture have: units, memory in GiB, and whether that is
    the host's own; then the host is an ARM processor on the same chip.
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
    """The board of an architecture, 'sm_87', with so many units; None for any other name."""
    capability = parse_architecture(name)
    if capability is None:
        return None
    if name not in BOARDS:
        known = ", ".join(f"cuda:{one} ({board.examples})" for one, board in BOARDS.items())
        what, why = f"there is no board cuda:{name}", f"known are {known}"
        raise InputError(what, why, nearest(f"cuda:{name}", [f"cuda:{one}" for one in BOARDS]))
    board = BOARDS[name]
    # A processor beside a discrete GPU is nearly always an x86 one, which writes in order. Where it
    # is not, the device says so, and a generic plan or the compiler takes over.
    facts = facts_of(capability, cooperates=True, maps_host=not board.unified)
    made = DeviceInfo(
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
        asked_local_memory=most_local_memory(capability),
        alignment=ALIGNMENT,
        unified_memory=board.unified,
        api="cuda",
        language="cuda",
        language_version=f"{capability[0]}.{capability[1]}",
        architectures=(name,),
        present=False,
    )
    assert facts.keys() == set(PROBED)
    return made.with_facts(facts)
