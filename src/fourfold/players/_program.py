"""OpenCL programs: built from text, loaded from a binary, and their binaries fetched."""

from __future__ import annotations

from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Program
from fourfold.players import binding as cl

_COMPILES_AGAIN = ("portable computing language",)  # platforms that give binaries only after work


def build_text(context: cl.Context, program: Program) -> cl.Program:
    """The program, by the device's compiler."""
    made = cl.Program.of_text(context, program.text)
    try:
        made.build(program.options)
    except cl.Error as error:
        what = f"the kernels do not build on {context.device.name}"
        raise BuildError(what, made.log or str(error), program.text) from error
    return made


def load_binary(context: cl.Context, binary: bytes, options: str) -> cl.Program | None:
    """The program, without the compiler; None where the driver does not take the binary."""
    try:
        made = cl.Program.of_binary(context, binary)
        made.build(options)
    except cl.Error:
        return None
    return made


def binaries_cost_nothing(platform: str) -> bool:
    """Whether the driver has the binary at hand after a build.

    PoCL compiles every kernel once more for it, for seconds, and keeps a cache of its own.
    """
    return platform.lower() not in _COMPILES_AGAIN


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
