"""OpenCL devices: found once, each with one context that all sessions on it share."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Program
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.facts import facts_of
from fourfold.players.opencl.program import build_text

_INSTALL = (
    "install the GPU's OpenCL driver, or 'pip install fourfold[cpu]' to run on the CPU by PoCL"
)
# All that kernels in half precision use: vectors, comparisons, conversions, functions. Some drivers
# take sums and products of halves, and nothing else.
_PROBE = """
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void probe(__global float *out)
{
    const half4 a = convert_half4((float4)(out[0]));
    const half4 b = a * a + (half4)((half)1.0f);
    const half4 c = convert_short4(convert_int4(a < b)) ? b : a;
    out[0] = convert_float4(c + exp(a) - exp(a)).x;
}
"""


@cache
def found_devices() -> tuple[tuple[DeviceInfo, cl.Device], ...]:
    """Every OpenCL device with its facts."""
    try:
        platforms = cl.platforms()
    except (cl.Error, OSError) as error:
        raise DeviceError("no OpenCL platform was found", reason_of(error), _INSTALL) from error
    found: list[tuple[DeviceInfo, cl.Device]] = []
    for platform in platforms:
        try:
            found += [(facts_of(device), device) for device in platform.devices()]
        except cl.Error:
            continue  # a platform without devices answers with an error
    return tuple(
        (replace(info, ordinal=number), device) for number, (info, device) in enumerate(found)
    )


def devices() -> tuple[DeviceInfo, ...]:
    """The facts of every OpenCL device on this machine."""
    return tuple(info for info, _ in found_devices())


@cache
def context_of(info: DeviceInfo) -> cl.Context:
    """One context for each device, shared by all sessions on it."""
    handle = next((device for known, device in found_devices() if known == info), None)
    if handle is None:
        raise DeviceError(f"{info} is gone", "it was found before and is no longer there", _INSTALL)
    return cl.Context(handle)


@cache
def has_half_arithmetic(info: DeviceInfo) -> bool:
    """Whether the device really computes in half: told by building and running a tiny kernel."""
    context = context_of(info)
    try:
        program = build_text(context, Program(_PROBE, ""))
        value = run_probe(context, program, np.array([3.0], np.float32), 1)
    except (cl.Error, BuildError):
        return False
    return bool(value[0] == 10.0)


def run_probe(
    context: cl.Context, program: cl.Program, values: np.ndarray, *local: int
) -> np.ndarray:
    """What the kernel 'probe' makes of some values, by one group of work-items."""
    queue, buffer = cl.Queue(context), cl.Buffer.of(context, values, writable=True)
    kernel = cl.Kernel(program, "probe")
    kernel.set_buffer(0, buffer)
    queue.replay([queue.call(kernel, local, local)])
    result = np.empty_like(values)
    queue.read(buffer, result)
    return result


def reason_of(error: Exception) -> str:
    """What a driver said, in one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
