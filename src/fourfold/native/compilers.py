"""Find the C compiler for a target: the system compiler, Zig from PyPI, or Android's NDK."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fourfold.config import android_folders
from fourfold.errors import InputError
from fourfold.native.targets import ANDROID_API, BuildTarget, host_target
from fourfold.packages import installed_version

_SYSTEM = ("cc", "gcc", "clang")
_WITHOUT_NDK = (
    "install the NDK with Android Studio or 'sdkmanager ndk;27.2.12479018', and set "
    "ANDROID_NDK_HOME to its folder. A static binary built with Zig starts on a phone, but cannot "
    "load its libOpenCL.so"
)


class Compiler(NamedTuple):
    """A command that compiles and links C, and the compiler's version for the cache key."""

    command: tuple[str, ...]
    identity: str


def find_compiler(target: BuildTarget | None) -> Compiler:
    """Return the compiler for a target; None is this machine."""
    if target is not None and target.is_android:
        return _android_compiler(target)
    own = _system_compiler()
    if own is not None and (target is None or target == host_target()):
        return own
    return _zig(target)


def _system_compiler() -> Compiler | None:
    path = next(filter(None, map(shutil.which, _SYSTEM)), None)
    return None if path is None else Compiler((path,), _version(path))


def _version(compiler: str) -> str:
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return said.stdout.partition("\n")[0]


def _zig(target: BuildTarget | None) -> Compiler:
    version = installed_version("ziglang")
    if version is None:
        name = "this machine" if target is None else target.name
        raise InputError(
            f"no compiler for {name} is installed",
            "there is no C compiler" if target is None else "Zig is not installed",
            "pip install 'fourfold[player]', which installs Zig, a C compiler for all targets",
        )
    command = (sys.executable, "-m", "ziglang", "cc")
    if target is None:
        return Compiler(command, f"zig {version}")
    return Compiler((*command, "-target", target.zig, *target.flags), f"zig {version}")


def _android_compiler(target: BuildTarget) -> Compiler:
    name = f"{target.android}{ANDROID_API}-clang" + (".cmd" if sys.platform == "win32" else "")
    kits = list(_ndk_folders())
    for kit in kits:
        for tools in sorted((kit / "toolchains/llvm/prebuilt").glob("*/bin")):
            if (tools / name).exists():
                return Compiler((os.fspath(tools / name),), f"{kit.name} {_revision(kit)}")
    where = (
        ", ".join(map(str, kits)) or "ANDROID_NDK_HOME, ANDROID_NDK_ROOT or the SDK's folder ndk"
    )
    why = f"no NDK with {name} is in {where}; only the NDK has Android's C library"
    raise InputError(f"no compiler for {target.name} is installed", why, _WITHOUT_NDK)


def _ndk_folders() -> Iterator[Path]:
    """Yield the NDKs named by environment variables, then those of the SDKs, newest first."""
    kits, sdks = android_folders()
    yield from map(Path, kits)
    for sdk in map(Path, sdks):
        yield from sorted((sdk / "ndk").glob("*"), key=_number, reverse=True)
        if (sdk / "ndk-bundle").is_dir():
            yield sdk / "ndk-bundle"


def _number(kit: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", kit.name))


def _revision(kit: Path) -> str:
    """Return the version noted in an NDK's folder."""
    try:
        properties = (kit / "source.properties").read_text(errors="replace")
    except OSError:
        return ""
    match = re.search(r"Pkg\.Revision\s*=\s*(\S+)", properties)
    return match[1] if match else ""
