"""Facts that no driver lists: found by building and running a tiny kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import BuildError
from fourfold.kernel.prelude import NVIDIA
from fourfold.plan import Program
from fourfold.players import binding as cl
from fourfold.players import opencl
from fourfold.players._program import build_text

_MATRIX = """
__kernel void probe(__global float *out)
{
    float4 sum = (float4)(0.0f);
    const uint ones = 0x3c003c00u;
    matrix_multiply(&sum, (uint2)(ones), (uint2)(ones), (uint2)(ones));
    out[get_local_id(0)] = sum.x + swap_neighbours((float)get_local_id(0));
}
"""


@cache
def probed(info: DeviceInfo) -> DeviceInfo:
    """The same device with the facts that only a trial tells."""
    return replace(info, matrix_units=_has_matrix_units(info))


def _has_matrix_units(info: DeviceInfo) -> bool:
    """Sixteen products of ones must add up to sixteen, in every work-item of a warp."""
    if info.kind != "gpu" or "nvidia" not in (info.vendor + info.platform).lower():
        return False
    context = opencl._context(info)
    try:
        program = build_text(context, Program("".join(NVIDIA.values()) + _MATRIX, ""))
        result = opencl.run_probe(context, program, np.zeros(32, np.float32), 32)
    except (cl.Error, BuildError):
        return False
    neighbours = np.arange(32) ^ 1
    return bool(np.array_equal(result, 16.0 + neighbours))
