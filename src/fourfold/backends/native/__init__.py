"""The player in C: its sources, compilers for each target machine, and cached builds."""

from __future__ import annotations

from fourfold.backends.native.build import build_player, copy_sources, source_folder
from fourfold.backends.native.targets import TARGETS, BuildTarget, find_target_machine, host_target

__all__ = [
    "TARGETS",
    "BuildTarget",
    "build_player",
    "copy_sources",
    "find_target_machine",
    "host_target",
    "source_folder",
]
