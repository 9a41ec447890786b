"""Builds the player in C for a machine, once for each version of its sources.

The sources are in the installed package or in a checkout. The compiler is the system's own, Zig
from PyPI, or Android's NDK.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from fourfold.config import android_folders
from fourfold.errors import InputError
from fourfold.support.packages import installed_version

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


_SYSTEM = ("cc", "gcc", "clang")
_WITHOUT_NDK = (
    "install the NDK with Android Studio or 'sdkmanager ndk;27.2.12479018', and set "
    "ANDROID_NDK_HOME to its folder. A static binary built with Zig starts on a phone, but cannot "
    "load its libOpenCL.so"
)
_PACKAGE = Path(__file__).resolve().parents[1]
SOURCE_FOLDERS = (_PACKAGE / "player_sources", _PACKAGE.parent.parent / "player")
_PATTERNS = ("*.c", "*.h", "command/*.c", "command/*.h")
FLAGS = ("-std=c99", "-O2", "-ffunction-sections", "-fdata-sections")
_LINUX = ("-Wl,--gc-sections", "-s", "-ldl", "-lm", "-lpthread")
# Google Play requires segments that are aligned to pages of 16 KB.
_PAGES = "-Wl,-z,max-page-size=16384"
_ANDROID = ("-Wl,--gc-sections", _PAGES, "-s", "-ldl", "-lm", "-static-libgcc")
_WINDOWS = ("-s",)
TIMEOUT_S = 600.0


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


def source_folder() -> Path:
    """Return the folder of the player's sources."""
    for folder in SOURCE_FOLDERS:
        if any(folder.glob("*.c")):
            return folder
    raise InputError(
        "the sources of the C player are missing",
        f"neither {SOURCE_FOLDERS[0]} nor {SOURCE_FOLDERS[1]} has them",
        "install fourfold from its wheel, or from a complete checkout",
    )


def source_files(folder: Path) -> list[Path]:
    """Return all sources and headers in a deterministic order."""
    return sorted(path for pattern in _PATTERNS for path in folder.glob(pattern))


def digest_player(folder: Path) -> str:
    """Return a digest of all sources."""
    total = hashlib.blake2b(digest_size=16)
    for path in source_files(folder):
        content, name = path.read_bytes(), path.relative_to(folder).as_posix()
        total.update(f"{name}:{len(content)}:".encode() + content)
    return total.hexdigest()


def copy_sources(target: Path) -> list[Path]:
    """Copy the sources of the library into a folder, to compile them in another project."""
    files = [path for path in sorted(source_folder().iterdir()) if path.is_file()]
    try:
        target.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(path, target)) for path in files]
    except OSError as error:
        fix = "choose a writable folder"
        raise InputError(f"cannot write to '{target}'", str(error), fix) from error


def build_player(target: BuildTarget | None, cache: str | None) -> Path:
    """Return the player's executable for a target, compiled unless cached; None is this machine.

    Without a cache it is built in a temporary folder that the caller owns: the parent of the
    result.
    """
    compiler, folder = find_compiler(target), source_folder()
    name = "fourfold-run" if target is None else target.program_name
    if cache is None:
        executable = Path(tempfile.mkdtemp(prefix="fourfold-player-")) / name
        _compile(compiler, folder, target, executable)
        return executable
    cached = Path(cache) / "players" / _key(compiler, folder, target) / name
    if not cached.exists():
        _compile_into(cached, compiler, folder, target)
    return cached


def _key(compiler: Compiler, folder: Path, target: BuildTarget | None) -> str:
    parts = (digest_player(folder), *compiler.command, compiler.identity, *_flags(target))
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
    return f"{'host' if target is None else target.name}-{digest}"


def _compile_into(
    cached: Path, compiler: Compiler, folder: Path, target: BuildTarget | None
) -> None:
    """Compile into the cache atomically, even if several processes do so at once."""
    try:
        cached.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder_of_build = Path(tempfile.mkdtemp(dir=cached.parent.parent, prefix=".build-"))
    except OSError as error:
        fix = "set FOURFOLD_CACHE to a writable folder"
        raise InputError("the player cannot be cached", str(error), fix) from error
    try:
        _compile(compiler, folder, target, folder_of_build / cached.name)
        cached.parent.mkdir(exist_ok=True)
        os.replace(folder_of_build / cached.name, cached)
    finally:
        shutil.rmtree(folder_of_build, ignore_errors=True)


def _compile(compiler: Compiler, folder: Path, target: BuildTarget | None, output: Path) -> None:
    sources = [os.fspath(path) for path in source_files(folder) if path.suffix == ".c"]
    command = [*compiler.command, *FLAGS, f"-I{folder}", *sources, "-o", os.fspath(output)]
    name = "this machine" if target is None else target.name
    fix = f"use a compiler other than {compiler.identity or compiler.command[0]}"
    try:
        done = subprocess.run(
            [*command, *_flags(target)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"the player could not be compiled for {name}", str(error), fix) from error
    if done.returncode or not output.exists():
        said = done.stderr.strip().splitlines()
        errors = [line for line in said if "error" in line.lower()] or said
        why = "; ".join(errors[:3]) or f"the compiler exited with {done.returncode}"
        raise InputError(f"the player does not compile for {name}", why, fix)


def _flags(target: BuildTarget | None) -> tuple[str, ...]:
    """Return the linker flags, which follow the sources."""
    if target is not None and target.is_windows:
        return _WINDOWS
    return _ANDROID if target is not None and target.is_android else _LINUX


def loader_environment() -> dict[str, str]:
    """Return the variables with which the player finds the OpenCL drivers that pip installed; empty
    if there are none.
    """
    spec = PathFinder.find_spec("pyopencl")
    for folder in (spec and spec.submodule_search_locations) or ():
        for library in sorted(Path(folder, ".libs").glob("libOpenCL*")):
            return {
                "LIBOPENCL_SO_PATH": str(library),
                "LD_LIBRARY_PATH": str(library.parent),
                "PYOPENCL_HOME": folder,
            }
    return {}
