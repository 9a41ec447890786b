"""Resources that kernels need on a GPU, as reported by NVIDIA's assembler."""

from __future__ import annotations

import re
from typing import NamedTuple

from fourfold.backends.cuda import nvrtc
from fourfold.plan import Launch, Plan

STATIC = 48 << 10  # bytes of local memory available without a request
REGISTERS = 1 << 16  # per unit, on every architecture since 7.5
_WARP, _TOGETHER = 32, 8  # registers are allocated to warps in multiples of this number
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores")
_USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")


class Resources(NamedTuple):
    """Registers of a work-item, bytes of local memory, and bytes of spilled registers of
    a kernel.
    """

    registers: int
    local_bytes: int
    spilled: int

    def groups_at_once(self, items: int) -> int:
        """Return the number of groups of this size that fit the registers of a unit."""
        each = -(-self.registers // _TOGETHER) * _TOGETHER * _WARP
        return REGISTERS // (each * -(-items // _WARP))


def resources_of(plan: Plan, architecture: str) -> dict[str, Resources]:
    """Return the resources of every kernel of a plan, compiled for an architecture."""
    image, log = nvrtc.build_with_log(plan.program, architecture, "--ptxas-options=-v")
    assert image.cubin.startswith(b"\x7fELF")
    assert f".target {architecture}".encode() in image.ptx
    return read_resources(log)


def read_resources(log: str) -> dict[str, Resources]:
    """Parse the assembler's log for each kernel."""
    results: dict[str, Resources] = {}
    parts = _ENTRY.split(log)
    for entry, words in zip(parts[1::2], parts[2::2], strict=True):
        spills, used = _SPILLS.search(words), _USED.search(words)
        assert spills, words
        assert used, words
        results[entry] = Resources(int(used[1]), int(used[2] or 0), int(spills[1]))
    return results


def fits(launch: Launch, taken: Resources, waits: bool) -> bool:
    """Return True if a launch can run; if its groups wait for each other, one per unit must fit."""
    items = 1
    for size in launch.local:
        items *= size
    return taken.local_bytes <= STATIC and (not waits or taken.groups_at_once(items) >= 1)
