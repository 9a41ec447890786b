"""OpenCL programs: built from text, loaded from a binary, and their binaries fetched."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fourfold.errors import BuildError, DeviceError
from fourfold.lazy import lazy_import
from fourfold.log import Log
from fourfold.plan import Program
from fourfold.players.opencl import binding as cl

if TYPE_CHECKING:
    from fourfold.kernel.opencl import probes
    from fourfold.log import native_output
else:
    probes = lazy_import("fourfold.kernel.opencl.probes")
    native_output = lazy_import("fourfold.log.native_output")

log = Log("players.opencl")

_POCL = "portable computing language"
_NO_HEADER = "-D_OPENCL_H_"  # PoCL's header of all functions stands behind this name


def build_text(context: cl.Context, program: Program) -> cl.Program:
    """The program, by the device's compiler."""
    made = cl.Program.of_text(context, program.text)
    began = time.perf_counter()
    try:
        with native_output.native_output_logged(log):
            made.build(program.options)
    except cl.Error as error:
        what = f"the kernels do not build on {context.device.name}"
        raise BuildError(what, made.log or str(error), program.text) from error
    seconds, size = time.perf_counter() - began, len(program.text)
    log.debug("%s built %d bytes of kernels in %.1f ms", context.device.name, size, seconds * 1e3)
    return made


def load_binary(context: cl.Context, binary: bytes, options: str) -> cl.Program | None:
    """The program, without the compiler; None where the driver does not take the binary."""
    try:
        made = cl.Program.of_binary(context, binary)
        made.build(options)
    except cl.Error as error:
        log.debug("%s does not take a binary: %s", context.device.name, error)
        return None
    return made


def binaries_cost_nothing(platform: str) -> bool:
    """Whether the driver has the binary at hand after a build.

    PoCL compiles every kernel once more for it, for seconds, and keeps a cache of its own.
    """
    return platform.lower() != _POCL


def begins_slowly(platform: str) -> bool:
    """Whether the compiler takes long before it begins with its first program."""
    return platform.lower() == _POCL


def warm_compiler(context: cl.Context) -> None:
    """Let the compiler load what it needs for any program.

    PoCL reads a library of functions for 0.3 s, once for a context, unless a program that it builds
    is in its cache. For one that is linked it always does.
    """
    try:
        part = cl.Program.of_text(context, probes.NOTHING)
        with native_output.native_output_logged(log):
            part.compile(_NO_HEADER)
            cl.Program.of_part(context, part)
    except cl.Error:
        return  # whatever is wrong, the program that is to be built will have the message


def fetch_binary(program: cl.Program) -> bytes:
    """The program's binary. Other threads go on meanwhile."""
    try:
        binary = program.binary
        why = "it has none at hand"
    except cl.Error as error:
        binary, why = b"", str(error)
    if not binary:
        raise DeviceError("the driver gives no binary", why, "run without binaries")
    return binary
