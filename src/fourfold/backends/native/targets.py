"""Target machines of the player, by the names that compilers give them."""

from __future__ import annotations

import platform
import sys
from typing import NamedTuple

ANDROID_API = 21  # Android 5, the first 64-bit release; binaries run on all later ones


class BuildTarget(NamedTuple):
    """A target machine: its name here, Zig's name for it, and that of Android's compilers.

    Linux binaries use a C library of 2014, or of the architecture's first year if that is later, so
    that they run on boards with old systems.
    """

    name: str
    zig: str = ""
    android: str = ""
    flags: tuple[str, ...] = ()

    @property
    def is_android(self) -> bool:
        return bool(self.android)

    @property
    def is_windows(self) -> bool:
        return "windows" in self.name

    @property
    def program_name(self) -> str:
        return "fourfold-run.exe" if self.is_windows else "fourfold-run"


_ALL = (
    BuildTarget("x86_64-linux-gnu", "x86_64-linux-gnu.2.17"),
    BuildTarget("aarch64-linux-gnu", "aarch64-linux-gnu.2.17"),
    BuildTarget("armv7-linux-gnueabihf", "arm-linux-gnueabihf.2.17", flags=("-mcpu=generic+v7a",)),
    BuildTarget("riscv64-linux-gnu", "riscv64-linux-gnu.2.27"),
    BuildTarget("x86_64-windows", "x86_64-windows-gnu"),
    BuildTarget("aarch64-linux-android", android="aarch64-linux-android"),
    BuildTarget("armv7-linux-android", android="armv7a-linux-androideabi"),
    BuildTarget("x86_64-linux-android", android="x86_64-linux-android"),
)
TARGETS = {target.name: target for target in _ALL}
# Machine names from `uname -m` and Android's `ro.product.cpu.abi`, with the start of target names.
_MACHINES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "arm64-v8a": "aarch64",
    "armv7l": "armv7",
    "armv8l": "armv7",
    "armeabi-v7a": "armv7",
    "riscv64": "riscv64",
}
_SYSTEMS = {"linux": "linux-gnu", "android": "linux-android", "windows": "windows"}


def find_target_machine(machine: str, system: str = "linux") -> BuildTarget | None:
    """Return the target for a machine name; None if there is none."""
    prefix, suffix = _MACHINES.get(machine.strip().lower()), _SYSTEMS[system]
    matches = (
        target
        for name, target in TARGETS.items()
        if prefix and name.startswith(f"{prefix}-{suffix}")
    )
    return next(matches, None)


def host_target() -> BuildTarget | None:
    """Return the target of this machine; None if it is not a supported target."""
    systems = {"win32": "windows", "linux": "linux"}
    if sys.platform not in systems:
        return None
    return find_target_machine(platform.machine(), systems[sys.platform])
