"""Emulate the warp instructions of matrix unit kernels with ordinary memory, on devices without
them.

The prelude of a plan's text is replaced by functions that compute the same for each work-item from
values that the 32 work-items of a warp exchange. They are slow and need groups without divergence.
Each group has its own memory in an added buffer. It is read as volatile, because PoCL 7.1 moves a
plain read across the next barrier, where other values are stored.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import numpy as np

from fourfold.backends import make_player
from fourfold.device import DeviceInfo
from fourfold.plan import Buffer, BufferUse, Launch, Plan, Port, Program, Requirements
from fourfold.types import TensorType

POCL = "Portable Computing Language"  # platform name; version 3.0 fails some of this
FUNCTIONS = """
#define LANE ((int)get_local_id(0))
#define GROUP (LANE / 4)
#define QUARTER (LANE % 4)
#define ROW ((int)get_local_id(1) + (int)get_local_size(1) * (int)get_local_id(2))
#define WARP (ROW * (int)get_local_size(0))
#define LEFT_BY(item, place) (((volatile __global const uint4 *)warps)[2 * (item) + (place)])
#define vloada_half4(index, pointer) unpack_halves(((__global const uint2 *)(pointer))[index])
#define vstorea_half4(value, index, pointer) \\
    (((__global uint2 *)(pointer))[index] = pack_halves(value))

static float half_of(uint word, int place)
{
    const ushort bits = (ushort)(word >> (16 * place));
    return vload_half(0, (const half *)&bits);
}

static uint2 pack_halves(float4 value)
{
    ushort bits[4];
    vstore_half4_rte(value, 0, (half *)bits);
    return (uint2)(bits[0] | (uint)bits[1] << 16, bits[2] | (uint)bits[3] << 16);
}

static float4 unpack_halves(uint2 words)
{
    return (float4)(
        half_of(words.x, 0), half_of(words.x, 1), half_of(words.y, 0), half_of(words.y, 1));
}

static uint2 load_if(__global const uint2 *from, int inside)
{
    return inside ? *from : (uint2)(0);
}

static uint2 load_streamed(__global const half *from)
{
    return *(__global const uint2 *)from;
}

static uint4 load_two_if(__global const half *from, int inside)
{
    return inside ? *(__global const uint4 *)from : (uint4)(0);
}

static uint2 from_line(__global uint4 *warps, uint2 words, int lane)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    warps[2 * (WARP + LANE)].xy = words;
    barrier(CLK_GLOBAL_MEM_FENCE);
    return lane >= 0 && lane < 32 ? LEFT_BY(WARP + lane, 0).xy : words;
}

static uint2 from_last(__global uint4 *warps, uint2 words)
{
    return from_line(warps, words, LANE - 4);
}

static uint2 from_next(__global uint4 *warps, uint2 words)
{
    return from_line(warps, words, LANE + 4);
}

static float exchange(__global uint4 *warps, float value, int apart)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    warps[2 * (WARP + LANE)].x = as_uint(value);
    barrier(CLK_GLOBAL_MEM_FENCE);
    return as_float(LEFT_BY(WARP + (LANE ^ apart), 0).x);
}

static float products(uint2 a, uint2 b)
{
    return dot(unpack_halves(a), unpack_halves(b));
}

static void matrix_multiply(__global uint4 *warps, float4 *d, uint2 upper, uint2 lower, uint2 b)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    warps[2 * (WARP + LANE)] = (uint4)(upper, lower);
    warps[2 * (WARP + LANE) + 1].xy = b;
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int quarter = 0; quarter < 4; quarter++) {
        const uint4 rows = LEFT_BY(WARP + 4 * GROUP + quarter, 0);
        const uint2 even = LEFT_BY(WARP + 4 * (2 * QUARTER) + quarter, 1).xy;
        const uint2 odd = LEFT_BY(WARP + 4 * (2 * QUARTER + 1) + quarter, 1).xy;
        *d += (float4)(products(rows.xy, even), products(rows.xy, odd),
            products(rows.zw, even), products(rows.zw, odd));
    }
}

static uint picked(int weights, int pick)
{
    uint b = 0;
    for (int place = 0; place < 4; place++) {
        const int from = pick >> (4 * place) & 15;
        b |= from < 4 ? ((uint)weights >> (8 * from) & 255) << (8 * place) : 0;
    }
    return b;
}

static void filter_multiply(__global uint4 *warps, float4 *d,
    uint upper_a, uint lower_a, uint upper_b, uint lower_b, int a, int b, int pick)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    warps[2 * (WARP + LANE)] = (uint4)(upper_a, upper_b, lower_a, lower_b);
    warps[2 * (WARP + LANE) + 1].xy = (uint2)(picked(a, pick), picked(b, pick));
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int quarter = 0; quarter < 4; quarter++) {
        const uint4 rows = LEFT_BY(WARP + 4 * GROUP + quarter, 0);
        const uint2 even = LEFT_BY(WARP + 4 * (2 * QUARTER) + quarter, 1).xy;
        const uint2 odd = LEFT_BY(WARP + 4 * (2 * QUARTER + 1) + quarter, 1).xy;
        *d += (float4)(products(rows.xy, even), products(rows.xy, odd),
            products(rows.zw, even), products(rows.zw, odd));
    }
}

"""
_CALL = re.compile(r"\b(exchange|from_last|from_next|matrix_multiply|filter_multiply)\(")
_HEAD = re.compile(r"(__kernel void [^{]*)\)\n\{\n")
_PARAMETERS = r"""\1,
    __global uint4 *warps_base,
    long warps_at)
{
    __global uint4 *warps = warps_base + warps_at
        + ((get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0)
        + get_group_id(0)) * 512;
"""
# A work-item exchanges half of its four numbers with its neighbor.
_EXCHANGES = """
static float exchange(__global float *left, float value)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    left[get_local_id(0)] = value;
    barrier(CLK_GLOBAL_MEM_FENCE);
    return left[get_local_id(0) ^ 1];
}

__kernel void exchanges(__global const float *x, long x_at, __global float *left, long left_at,
                        __global float *y, long y_at)
{
    const int lane = get_local_id(0), even = lane % 2 == 0;
    const float4 own = ((__global const float4 *)x)[lane];
    const float first = exchange(left, even ? own.s2 : own.s0);
    const float second = exchange(left, even ? own.s3 : own.s1);
    ((__global float4 *)y)[lane] = even ? (float4)(own.s0, own.s1, first, second)
                                        : (float4)(first, second, own.s2, own.s3);
}
"""


def moves_reads(device: DeviceInfo) -> bool:
    """Return True if the device reads a value again after the next barrier, where it has changed.
    Uses the smallest kernel that shows this with PoCL 7.1.
    """
    numbers = np.arange(128, dtype=np.float32).reshape(32, 4)
    kind, bytes_ = TensorType.of(numbers), numbers.nbytes
    plan = Plan(
        name="main",
        program=Program(_EXCHANGES, "-cl-std=CL1.2"),
        buffers=(
            Buffer("arena", "arena", bytes_),
            Buffer("x", "input", bytes_),
            Buffer("y", "output", bytes_),
        ),
        launches=(
            Launch(
                "exchanges",
                (BufferUse(1, 0), BufferUse(0, 0), BufferUse(2, 0)),
                (32,),
                (32,),
                "exchanges",
                "y = exchanges(x)",
            ),
        ),
        inputs=(Port("x", kind, 1),),
        outputs=(Port("y", kind, 2),),
        constants=np.zeros(0, np.uint8),
        precision="fp32",
        requirements=Requirements(buffer_bytes=bytes_, alignment=8),
    )
    player = make_player(device, plan)
    (output,) = player.run([numbers])
    player.close()
    pairs = numbers.reshape(16, 2, 2, 2)  # even and odd neighbors, and halves of their numbers
    return not np.array_equal(output, pairs.transpose(0, 2, 1, 3).reshape(32, 4))


def with_matrix_units(device: DeviceInfo) -> DeviceInfo:
    """Return the device with the facts of a GPU with matrix units, for plans that run on
    `device`.
    """
    facts = replace(device, kind="gpu", compute_units=4, max_work_group=256)
    return replace(facts, matrix_units=True, subgroups="ptx")


def emulated(plan: Plan) -> Plan:
    """Return the plan as a list of launches for devices without matrix units."""
    kernels = plan.program.text[plan.program.text.index("// ") :]
    kernels = _HEAD.sub(_PARAMETERS, _CALL.sub(r"\1(warps, ", kernels))
    groups = max(prod(launch.grid) // prod(launch.local) for launch in plan.launches)
    number = len(plan.buffers)
    return replace(
        plan,
        program=Program(FUNCTIONS + kernels, plan.program.options),
        buffers=(*plan.buffers, Buffer("warps", "arena", groups * 512 * 16)),
        launches=tuple(
            launch._replace(arguments=(*launch.arguments, BufferUse(number, 0)))
            for launch in plan.launches
        ),
    )
