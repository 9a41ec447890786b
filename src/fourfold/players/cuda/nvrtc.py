"""NVRTC, NVIDIA's compiler as a library: CUDA C in, code for one architecture out.

It needs no GPU. It is asked for to build only: programs that are kept are played without it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import CDLL, byref, c_char_p, c_int, c_size_t, c_void_p
from ctypes.util import find_library
from functools import cache
from glob import glob
from importlib.machinery import PathFinder
from typing import NamedTuple

from fourfold.errors import BuildError, DeviceError
from fourfold.kernel.cuda.stage_calls import count_parts
from fourfold.plan import Program
from fourfold.players.cuda.image import Image

INSTALL = "install the compiler by 'pip install fourfold[cuda]', or NVIDIA's CUDA toolkit"
_ANEW = "install it anew: pip install --force-reinstall nvidia-cuda-nvrtc"
_PACKAGE = "nvidia"  # whose folders the wheels of NVIDIA's libraries fill
_FILE = "k.cu"
_OLDER = "install an older one: pip install nvidia-cuda-nvrtc-cu12"
_NEWER = "install a newer one: pip install --upgrade nvidia-cuda-nvrtc"
_CALLS, _CALLS_ON = (13, 0), 80  # the compiler and the architecture that have `nv_abi`
_ALL_REGISTERS = "--maxrregcount=255"  # a part does not know how small the kernel's groups are
_ARCHITECTURE = "--gpu-architecture="
_COMPILATION = 6  # what it answers where the text is wrong
_LEAST = (11, 2)  # the first that tells which architectures it knows
_OWN_INSTRUCTIONS = (12, 0)  # the first that has those of one architecture alone, 'sm_90a'
# What helps against other answers: no memory, an option that it does not know, its own parts.
_FIXES = {1: "close other programs: the host has no memory left", 5: _NEWER, 7: _ANEW}
# Where toolkits and JetPack put it, beside where the system looks by itself.
_FOLDERS = (
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/aarch64-linux/lib",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
)
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so")
_WINDOWS = "nvrtc64_*_0.dll"
_WINDOWS_NAMES = ("nvrtc64_130_0", "nvrtc64_120_0", "nvrtc64_112_0")


class Library(NamedTuple):
    """The loaded compiler: its functions, where it is, and its version."""

    functions: CDLL
    path: str
    version: tuple[int, int]

    @property
    def name(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"


@cache
def libraries() -> tuple[Library, ...]:
    """The compilers of this machine, the oldest first: its code runs on the most drivers. A
    DeviceError where there is none.
    """
    found: dict[tuple[int, int], Library] = {}
    absent = "no file of it is where it could be"
    unusable: tuple[str, str] | None = None
    for path in _candidates():
        try:
            functions = CDLL(path)
            version = _version(functions)
        except (OSError, AttributeError) as error:
            absent = str(error)
            continue
        one = Library(functions, path, version)
        problem = _problem(one)
        if problem is None:
            found.setdefault(version, one)
        unusable = unusable or problem
    if not found:
        what = "CUDA kernels cannot be built: NVRTC does not load"
        raise DeviceError(what, *(unusable or (absent, INSTALL)))
    return tuple(found[version] for version in sorted(found))


def _problem(found: Library) -> tuple[str, str] | None:
    """Why a compiler cannot be used, and what helps; None where it can."""
    if found.version < _LEAST:
        return f"{found.path} is {found.name}, and {_LEAST[0]}.{_LEAST[1]} is needed", _NEWER
    try:
        _load_builtins(os.path.dirname(found.path), found.version)
    except OSError as error:
        return f"{found.path} lacks a part of it: {error}", _ANEW
    return None


def build(program: Program, architecture: str) -> Image:
    """The program for an architecture, 'sm_87'; a BuildError has the compiler's log."""
    return build_with_log(program, architecture)[0]


def build_with_log(program: Program, architecture: str, *more: str) -> tuple[Image, str]:
    """The same by options of its own, and what the compiler said: with '--ptxas-options=-v' the
    registers and the local memory of every kernel.
    """
    found = compiler_of(program, architecture)
    with _compiled(found, program, architecture, more) as handle:
        made = [_bytes(found, handle, what) for what in ("CUBIN", "PTX")]
        return Image(architecture, found.name, *made), _text(found.functions, handle)


def build_parts(program: Program, architecture: str) -> list[bytes]:
    """The program as code that a linker joins, several parts at once; nothing where the program has
    one part, or the compiler cannot say what calls between parts may keep.
    """
    count = count_parts(program.text)
    if count == 1 or _number(architecture) < _CALLS_ON:
        return []
    found = compiler_of(program, architecture)
    if found.version < _CALLS:
        return []

    def built(part: int) -> bytes:
        more = (f"-DPART={part}", "--relocatable-device-code=true", _ALL_REGISTERS)
        with _compiled(found, program, architecture, more) as handle:
            return _bytes(found, handle, "CUBIN")

    with ThreadPoolExecutor(min(count, os.cpu_count() or 1)) as pool:
        return list(pool.map(built, range(count)))


@contextmanager
def _compiled(
    found: Library, program: Program, architecture: str, more: Sequence[str]
) -> Iterator[c_void_p]:
    """A program that was compiled, by the compiler's handle."""
    options = [*program.options.split(), "--disable-warnings", *more]
    if not any(one.startswith(_ARCHITECTURE) for one in options):  # one may have its own
        options.append(_ARCHITECTURE + architecture)
    handle, functions = c_void_p(), found.functions
    source, name = program.text.encode(), _FILE.encode()
    _check(found, functions.nvrtcCreateProgram(byref(handle), source, name, 0, None, None))
    try:
        given = (c_char_p * len(options))(*(option.encode() for option in options))
        code = functions.nvrtcCompileProgram(handle, len(options), given)
        if code == _COMPILATION:
            what = f"the kernels do not build for {architecture} by {found.name}"
            raise BuildError(what, _text(functions, handle), program.text)
        if code:
            _check(found, code, _text(functions, handle))
        yield handle
    finally:
        functions.nvrtcDestroyProgram(byref(handle))


def supported(found: Library) -> tuple[int, ...]:
    """The architectures that this compiler knows, as numbers: 75, 80, 86."""
    count = c_int()
    _check(found, found.functions.nvrtcGetNumSupportedArchs(byref(count)))
    numbers = (c_int * count.value)()
    _check(found, found.functions.nvrtcGetSupportedArchs(numbers))
    return tuple(numbers)


def compiler_of(program: Program, architecture: str) -> Library:
    """The first compiler that knows an architecture, and its own instructions where a program has
    some; a DeviceError where none does.
    """
    own = _ARCHITECTURE in program.options
    return compiler_for(architecture, _OWN_INSTRUCTIONS if own else _LEAST)


def compiler_for(architecture: str, least: tuple[int, int] = _LEAST) -> Library:
    """The first compiler, no older than `least`, that knows an architecture; a DeviceError where
    none does.
    """
    every = libraries()
    for one in every:
        if one.version >= least and _number(architecture) in supported(one):
            return one
    newest = every[-1]
    known = supported(newest)
    what = f"{newest.name} builds nothing for {architecture}"
    why = f"it knows {', '.join(f'sm_{one}' for one in known)}"
    raise DeviceError(what, why, _OLDER if _number(architecture) < min(known) else _NEWER)


def known_architecture(architectures: Sequence[str]) -> str:
    """The first of these that a compiler knows: a GPU that is newer than all compilers runs what is
    built for an older one. A DeviceError where there is none.
    """
    known = {number for one in libraries() for number in supported(one)}
    able = (one for one in architectures if _number(one) in known)
    found = next(able, architectures[0])
    compiler_for(found)
    return found


def _number(architecture: str) -> int:
    return int(architecture.removeprefix("sm_"))


def _candidates() -> Iterator[str]:
    """Where it may be, in this order: what pip installed, what the system finds, toolkits."""
    windows = sys.platform == "win32"
    wanted = _WINDOWS if windows else "libnvrtc.so.*"
    for folder in _package_folders():
        for inner in ("cu*/lib", "cuda_nvrtc/lib", "cu*/bin/*", "cu*/bin", "cuda_nvrtc/bin"):
            yield from sorted(glob(os.path.join(folder, inner, wanted)), reverse=True)
    if windows:
        yield from filter(None, map(find_library, _WINDOWS_NAMES))
        return
    for place in _FOLDERS:
        yield from (
            os.path.join(place, name) for name in _NAMES if os.path.exists(f"{place}/{name}")
        )
    yield from _NAMES


def _package_folders() -> Sequence[str]:
    """Where NVIDIA's wheels put their files, without importing anything."""
    found = PathFinder.find_spec(_PACKAGE)
    return [*(found.submodule_search_locations or ())] if found is not None else []


def _load_builtins(folder: str, version: tuple[int, int]) -> None:
    """The compiler asks for this library by its bare name, which only finds one that is loaded;
    OSError where it is not there.
    """
    major, minor = version
    name = f"libnvrtc-builtins.so.{major}.{minor}"
    if sys.platform == "win32":
        name = f"nvrtc-builtins64_{major}{minor}.dll"
    beside = os.path.join(folder, name)
    CDLL(beside if os.path.exists(beside) else name, mode=ctypes.RTLD_GLOBAL)


def _version(functions: CDLL) -> tuple[int, int]:
    major, minor = c_int(), c_int()
    functions.nvrtcVersion(byref(major), byref(minor))
    return major.value, minor.value


def _check(found: Library, code: int, said: str = "") -> None:
    """A DeviceError where it answers that it failed, with what it `said`."""
    if code:
        found.functions.nvrtcGetErrorString.restype = c_char_p
        why = (found.functions.nvrtcGetErrorString(code) or b"").decode()
        why = f"{why} ({found.path}) {said.strip()}".rstrip()
        raise DeviceError(f"{found.name} failed", why, _FIXES.get(code, INSTALL))


def _text(functions: CDLL, handle: c_void_p) -> str:
    """What the compiler said."""
    size = c_size_t()
    functions.nvrtcGetProgramLogSize(handle, byref(size))
    log = ctypes.create_string_buffer(size.value)
    functions.nvrtcGetProgramLog(handle, log)
    return log.value.decode(errors="replace")


def _bytes(found: Library, handle: c_void_p, what: str) -> bytes:
    size = c_size_t()
    _check(found, getattr(found.functions, f"nvrtcGet{what}Size")(handle, byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(found, getattr(found.functions, f"nvrtcGet{what}")(handle, data))
    return data.raw
