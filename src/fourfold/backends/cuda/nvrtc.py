"""NVRTC, NVIDIA's compiler library: compiles CUDA C to code for one architecture.

It needs no GPU. It is only loaded to build: cached programs run without it.
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

from fourfold.backends.cuda.image import Image
from fourfold.codegen.cuda.stage_calls import count_parts
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Program

INSTALL = "install the compiler with 'pip install fourfold[cuda]', or NVIDIA's CUDA toolkit"
_REINSTALL = "reinstall it: pip install --force-reinstall nvidia-cuda-nvrtc"
_PACKAGE = "nvidia"  # namespace package of NVIDIA's wheels
_FILE = "k.cu"
_OLDER = "install an older one: pip install nvidia-cuda-nvrtc-cu12"
_NEWER = "install a newer one: pip install --upgrade nvidia-cuda-nvrtc"
_CALLS, _CALLS_ON = (13, 0), 80  # minimum compiler and architecture for `nv_abi`
# A part is compiled without knowing the group size of the kernel.
_ALL_REGISTERS = "--maxrregcount=255"
_ARCHITECTURE = "--gpu-architecture="
_COMPILATION = 6  # status of a failed compilation
_MIN_VERSION = (11, 2)  # the first that reports which architectures it supports
_OWN_INSTRUCTIONS = (12, 0)  # the first with instructions specific to one architecture, 'sm_90a'
# Fixes by status: out of memory, unknown option, missing builtins.
_FIXES = {1: "close other programs: the host is out of memory", 5: _NEWER, 7: _REINSTALL}
# Folders of toolkits and JetPack that the system does not search by itself.
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
    """The loaded compiler: its functions, path and version."""

    functions: CDLL
    path: str
    version: tuple[int, int]

    @property
    def name(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"


@cache
def libraries() -> tuple[Library, ...]:
    """Return the compilers of this machine, oldest first: its code runs on most drivers.

    Raises a DeviceError if there is none.
    """
    usable: dict[tuple[int, int], Library] = {}
    absent = "the library was not found"
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
            usable.setdefault(version, one)
        unusable = unusable or problem
    if not usable:
        what = "CUDA kernels cannot be built: NVRTC cannot be loaded"
        why, fix = unusable or (absent, INSTALL)
        raise DeviceError(what, why, fix)
    return tuple(usable[version] for version in sorted(usable))


def _problem(library: Library) -> tuple[str, str] | None:
    """Return why a compiler cannot be used, and the fix; None if it can."""
    if library.version < _MIN_VERSION:
        required = f"{_MIN_VERSION[0]}.{_MIN_VERSION[1]}"
        return f"{library.path} is {library.name}, but {required} is required", _NEWER
    try:
        _load_builtins(os.path.dirname(library.path), library.version)
    except OSError as error:
        return f"{library.path} is incomplete: {error}", _REINSTALL
    return None


def build(program: Program, architecture: str) -> Image:
    """Build the program for an architecture such as 'sm_87'; a BuildError has the
    compiler's log.
    """
    return build_with_log(program, architecture)[0]


def build_with_log(program: Program, architecture: str, *more: str) -> tuple[Image, str]:
    """Build with additional options and return the compiler's log: with '--ptxas-options=-v' it has
    the registers and the local memory of every kernel.
    """
    library = compiler_of(program, architecture)
    with _compiled(library, program, architecture, more) as handle:
        codes = [_bytes(library, handle, what) for what in ("CUBIN", "PTX")]
        return Image(architecture, library.name, *codes), _text(library.functions, handle)


def build_parts(program: Program, architecture: str) -> list[bytes]:
    """Compile the parts of a program in parallel, for the linker.

    Empty if the program has one part, or the compiler does not support the calling convention
    between parts.
    """
    count = count_parts(program.text)
    if count == 1 or _number(architecture) < _CALLS_ON:
        return []
    library = compiler_of(program, architecture)
    if library.version < _CALLS:
        return []

    def built(part: int) -> bytes:
        more = (f"-DPART={part}", "--relocatable-device-code=true", _ALL_REGISTERS)
        with _compiled(library, program, architecture, more) as handle:
            return _bytes(library, handle, "CUBIN")

    with ThreadPoolExecutor(min(count, os.cpu_count() or 1)) as pool:
        return list(pool.map(built, range(count)))


@contextmanager
def _compiled(
    library: Library, program: Program, architecture: str, more: Sequence[str]
) -> Iterator[c_void_p]:
    """Compile a program; yields the compiler's handle."""
    options = [*program.options.split(), "--disable-warnings", *more]
    if not any(one.startswith(_ARCHITECTURE) for one in options):  # the program may specify its own
        options.append(_ARCHITECTURE + architecture)
    handle, functions = c_void_p(), library.functions
    source, name = program.text.encode(), _FILE.encode()
    _check(library, functions.nvrtcCreateProgram(byref(handle), source, name, 0, None, None))
    try:
        arguments = (c_char_p * len(options))(*(option.encode() for option in options))
        code = functions.nvrtcCompileProgram(handle, len(options), arguments)
        if code == _COMPILATION:
            what = f"the kernels do not build for {architecture} with {library.name}"
            raise BuildError(what, _text(functions, handle), program.text)
        if code:
            _check(library, code, _text(functions, handle))
        yield handle
    finally:
        functions.nvrtcDestroyProgram(byref(handle))


def supported(library: Library) -> tuple[int, ...]:
    """Return the architectures that a compiler supports, as numbers: 75, 80, 86."""
    count = c_int()
    _check(library, library.functions.nvrtcGetNumSupportedArchs(byref(count)))
    numbers = (c_int * count.value)()
    _check(library, library.functions.nvrtcGetSupportedArchs(numbers))
    return tuple(numbers)


def compiler_of(program: Program, architecture: str) -> Library:
    """Return the first compiler that supports an architecture, and its specific instructions if the
    program uses them; a DeviceError if none does.
    """
    own = _ARCHITECTURE in program.options
    return compiler_for(architecture, _OWN_INSTRUCTIONS if own else _MIN_VERSION)


def compiler_for(architecture: str, minimum: tuple[int, int] = _MIN_VERSION) -> Library:
    """Return the first compiler, not older than `least`, that supports an architecture; a
    DeviceError if none does.
    """
    every = libraries()
    for one in every:
        if one.version >= minimum and _number(architecture) in supported(one):
            return one
    newest = every[-1]
    numbers = supported(newest)
    what = f"{newest.name} cannot build for {architecture}"
    why = f"it supports {', '.join(f'sm_{one}' for one in numbers)}"
    raise DeviceError(what, why, _OLDER if _number(architecture) < min(numbers) else _NEWER)


def known_architecture(architectures: Sequence[str]) -> str:
    """Return the first of these that a compiler supports: a GPU newer than all compilers runs code
    built for an older one. Raises a DeviceError if there is none.
    """
    numbers = {number for one in libraries() for number in supported(one)}
    candidates = (one for one in architectures if _number(one) in numbers)
    architecture = next(candidates, architectures[0])
    compiler_for(architecture)
    return architecture


def _number(architecture: str) -> int:
    return int(architecture.removeprefix("sm_"))


def _candidates() -> Iterator[str]:
    """Yield possible paths: installed by pip, toolkits, then names that the system searches."""
    windows = sys.platform == "win32"
    pattern = _WINDOWS if windows else "libnvrtc.so.*"
    for folder in _package_folders():
        for inner in ("cu*/lib", "cuda_nvrtc/lib", "cu*/bin/*", "cu*/bin", "cuda_nvrtc/bin"):
            yield from sorted(glob(os.path.join(folder, inner, pattern)), reverse=True)
    if windows:
        yield from filter(None, map(find_library, _WINDOWS_NAMES))
        return
    for folder in _FOLDERS:
        yield from (
            os.path.join(folder, name) for name in _NAMES if os.path.exists(f"{folder}/{name}")
        )
    yield from _NAMES


def _package_folders() -> Sequence[str]:
    """Return the folders of NVIDIA's wheels, without importing anything."""
    spec = PathFinder.find_spec(_PACKAGE)
    return [*(spec.submodule_search_locations or ())] if spec is not None else []


def _load_builtins(folder: str, version: tuple[int, int]) -> None:
    """Load the builtins library: the compiler opens it by its bare name, which only finds a loaded
    one. Raises OSError if it is missing.
    """
    major, minor = version
    name = f"libnvrtc-builtins.so.{major}.{minor}"
    if sys.platform == "win32":
        name = f"nvrtc-builtins64_{major}{minor}.dll"
    sibling = os.path.join(folder, name)
    CDLL(sibling if os.path.exists(sibling) else name, mode=ctypes.RTLD_GLOBAL)


def _version(functions: CDLL) -> tuple[int, int]:
    major, minor = c_int(), c_int()
    functions.nvrtcVersion(byref(major), byref(minor))
    return major.value, minor.value


def _check(library: Library, code: int, output: str = "") -> None:
    """Raise a DeviceError if the status is not zero, with the compiler's output `said`."""
    if code:
        library.functions.nvrtcGetErrorString.restype = c_char_p
        why = (library.functions.nvrtcGetErrorString(code) or b"").decode()
        why = f"{why} ({library.path}) {output.strip()}".rstrip()
        raise DeviceError(f"{library.name} failed", why, _FIXES.get(code, INSTALL))


def _text(functions: CDLL, handle: c_void_p) -> str:
    """Return the compiler's log."""
    size = c_size_t()
    functions.nvrtcGetProgramLogSize(handle, byref(size))
    log = ctypes.create_string_buffer(size.value)
    functions.nvrtcGetProgramLog(handle, log)
    return log.value.decode(errors="replace")


def _bytes(library: Library, handle: c_void_p, what: str) -> bytes:
    size = c_size_t()
    _check(library, getattr(library.functions, f"nvrtcGet{what}Size")(handle, byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library.functions, f"nvrtcGet{what}")(handle, data))
    return data.raw
