"""What kernels take of a GPU, as NVIDIA's assembler says when it builds them."""

from __future__ import annotations

import re
from typing import NamedTuple

from fourfold.backends.cuda import nvrtc
from fourfold.plan import Launch, Plan

STATIC = 48 << 10  # bytes of local memory that a kernel has without asking for more
REGISTERS = 1 << 16  # of a unit, on every architecture from 7.5 on
_WARP, _TOGETHER = 32, 8  # registers are given to warps, so many of each work-item at once
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores")
_USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")


class Resources(NamedTuple):
    """What a kernel takes: registers of a work-item, bytes of local memory, bytes that are spilled
    because registers do not suffice.
    """

    registers: int
    local_bytes: int
    spilled: int

    def groups_at_once(self, items: int) -> int:
        """How many groups of so many work-items the registers of a unit suffice for."""
        each = -(-self.registers // _TOGETHER) * _TOGETHER * _WARP
        return REGISTERS // (each * -(-items // _WARP))


def resources_of(plan: Plan, architecture: str) -> dict[str, Resources]:
    """What every kernel of a plan takes when it is built for an architecture."""
    image, log = nvrtc.build_with_log(plan.program, architecture, "--ptxas-options=-v")
    assert image.cubin.startswith(b"\x7fELF")
    assert f".target {architecture}".encode() in image.ptx
    return read_resources(log)


def read_resources(log: str) -> dict[str, Resources]:
    """The assembler's words for each kernel."""
    found: dict[str, Resources] = {}
    parts = _ENTRY.split(log)
    for entry, words in zip(parts[1::2], parts[2::2], strict=True):
        spills, used = _SPILLS.search(words), _USED.search(words)
        assert spills, words
        assert used, words
        found[entry] = Resources(int(used[1]), int(used[2] or 0), int(spills[1]))
    return found


def fits(launch: Launch, taken: Resources, waits: bool) -> bool:
    """Whether a launch can run; where its groups wait for each other, one a unit must fit."""
    items = 1
    for size in launch.local:
        items *= size
    return taken.local_bytes <= STATIC and (not waits or taken.groups_at_once(items) >= 1)
