"""Build OpenCL programs, load them from a binary, and fetch their binaries."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from fourfold.backends.opencl import binding as cl
from fourfold.config import pocl_cache
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Program
from fourfold.support.lazy import lazy_import
from fourfold.support.log import Log

if TYPE_CHECKING:
    from fourfold.codegen.opencl import probes
    from fourfold.support.log import native_output
else:
    probes = lazy_import("fourfold.codegen.opencl.probes")
    native_output = lazy_import("fourfold.support.log.native_output")

log = Log("backends.opencl")

_POCL = "portable computing language"
_MIN_FREE_BYTES = 8 << 20  # for the files that PoCL writes for one program
_NO_HEADER = "-D_OPENCL_H_"  # include guard of PoCL's header with all functions


def build_text(context: cl.Context, program: Program) -> cl.Program:
    """Build the program with the device's compiler."""
    _check_disk(context)
    built = cl.Program.of_text(context, program.text)
    began = time.perf_counter()
    try:
        with native_output.log_native_output(log):
            built.build(program.options)
    except cl.Error as error:
        what = f"the kernels do not build on {context.device.name}"
        raise BuildError(what, built.log or str(error), program.text) from error
    seconds, size = time.perf_counter() - began, len(program.text)
    log.debug("%s built %d bytes of kernels in %.1f ms", context.device.name, size, seconds * 1e3)
    return built


def _check_disk(context: cl.Context) -> None:
    """Raise a DeviceError if PoCL has no space for its files: LLVM would abort the process."""
    if has_slow_compiler_start(context.device.platform.name) and hasattr(os, "statvfs"):
        folder = pocl_cache()
        free = _free_bytes(folder)
        if free < _MIN_FREE_BYTES:
            what = f"{context.device.name} cannot compile kernels"
            why = f"the disk of PoCL's cache folder {folder} is full ({free >> 20} MiB free)"
            fix = "free some space, or set POCL_CACHE_DIR to a folder on another disk"
            raise DeviceError(what, why, fix)


def _free_bytes(folder: str) -> int:
    """Return the free space of a folder's disk; the folder may not exist yet."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        parent = os.path.dirname(folder)
        return _free_bytes(parent) if parent != folder else _MIN_FREE_BYTES
    return disk.f_bavail * disk.f_frsize


def load_binary(context: cl.Context, binary: bytes, options: str) -> cl.Program | None:
    """Load the program without the compiler; None if the driver rejects the binary."""
    try:
        loaded = cl.Program.of_binary(context, binary)
        loaded.build(options)
    except cl.Error as error:
        log.debug("%s rejects a binary: %s", context.device.name, error)
        return None
    return loaded


def has_cheap_binaries(platform: str) -> bool:
    """Return True if the driver has the binary after a build.

    PoCL compiles every kernel again for it, which takes seconds, and has its own cache.
    """
    return platform.lower() != _POCL


def has_slow_compiler_start(platform: str) -> bool:
    """Return True if the compiler takes long to start."""
    return platform.lower() == _POCL


def warm_compiler(context: cl.Context) -> None:
    """Make the compiler load what it needs for any program.

    PoCL reads a library of functions for 0.3 s, once per context, unless the program is in its
    cache. For a linked program it always does.
    """
    try:
        _check_disk(context)
        part = cl.Program.of_text(context, probes.NOTHING)
        with native_output.log_native_output(log):
            part.compile(_NO_HEADER)
            cl.Program.of_part(context, part)
    except (cl.Error, DeviceError):
        return  # the actual build will report the error


def fetch_binary(program: cl.Program) -> bytes:
    """Return the program's binary, without blocking other threads."""
    try:
        binary = program.binary
        why = "it has none"
    except cl.Error as error:
        binary, why = b"", str(error)
    if not binary:
        raise DeviceError("the driver provides no binary", why, "run without binaries")
    return binary
