"""Small programs that probe what a device supports, ready to be built.

They are called like kernels of plans: a pointer is a base and an offset in bytes. A kernel named
'probe' runs in one group and writes its result to its only buffer.
"""

from __future__ import annotations

from collections.abc import Iterable

from fourfold.codegen.c_style.grid_barrier import grid_barrier, host_handshake
from fourfold.codegen.opencl.claiming import THREAD
from fourfold.codegen.opencl.dialect import OPENCL
from fourfold.codegen.opencl.prelude import (
    DOTS,
    EXCHANGES,
    HALF_ARITHMETIC,
    NVIDIA,
    SUBGROUP_SIZES,
    build_options,
)
from fourfold.plan import Program

# Exercises everything that fp16 kernels use: vectors, comparisons, conversions, functions. Some
# drivers support only sums and products of halves.
_HALF = """__kernel void probe(__global uchar *base, long at)
{
    __global float *out = (__global float *)(base + at);
    const half4 a = convert_half4((float4)(out[0]));
    const half4 b = a * a + (half4)((half)1.0f);
    const half4 c = convert_short4(convert_int4(a < b)) ? b : a;
    out[0] = convert_float4(c + exp(a) - exp(a)).x;
}
"""

_MATRIX = """
__kernel void probe(__global uchar *base, long at)
{
    __global float *out = (__global float *)(base + at);
    float4 sum = (float4)(0.0f);
    const uint ones = 0x3c003c00u;
    matrix_multiply(&sum, (uint2)(ones), (uint2)(ones), (uint2)(ones));
    out[get_local_id(0)] = sum.x + exchange((float)get_local_id(0), 1);
}
"""

# Neighbours add up their numbers, as many as a sub-group has.
_EXCHANGE = """
__kernel void probe(__global uchar *base, long at)
{
    __global float *out = (__global float *)(base + at);
    const int row = get_local_size(0), item = get_local_id(1) * row + get_local_id(0);
    const int reach = REACH;
    float sum = item;
    for (int apart = 1; apart < row && apart < reach; apart *= 2) sum += exchange(sum, apart);
    out[2 * item] = sum;
    out[2 * item + 1] = reach;
}
"""

_DOTS = """
__kernel void probe(__global uchar *base, long at)
{
    __global float *out = (__global float *)(base + at);
    int4 sum = (int4)(1, 1, 1, 1);
    add_few_dots(&sum, (int4)(0x04ff0201), (int4)(-1, 0x01ff807f, 0, 2));
    out[0] = (float)sum.s0;
    out[1] = (float)sum.s1;
    out[2] = (float)sum.s3;
}
"""

# Tests eight sums, and sixteen numbers rounded to bytes.
_BYTES = """
__kernel void probe(__global uchar *base, long at)
{
    __global float *out = (__global float *)(base + at);
    int8 sum = (int8)(1);
    add_dots(&sum, (int8)(0x04ff0201), (int8)(-1, 0x01ff807f, 0, 2, 0, 1, 0, 1));
    const float8 some = (float8)(0.5f, 1.5f, 300.0f, -9.0f, -1.0f, 7.0f, 6.0f, 5.0f);
    const float8 more = rint(some + (float8)(1.0f)) - floor((float8)(0.9f));
    store_bytes((__global uchar *)(out + 4), some, more, 99.0f, 3);
    out[0] = (float)sum.s0;
    out[1] = (float)sum.s1;
    out[2] = (float)sum.s3;
}
"""

_IMAGES = """
__kernel void images(
    __global uchar *base,
    long at,
    __read_only image1d_buffer_t floats,
    int floats_at,
    __read_only image1d_buffer_t halves,
    int halves_at)
{
    __global float4 *out = (__global float4 *)(base + at);
    const int item = get_global_id(0), items = get_global_size(0);
    out[item] = read_imagef(floats, floats_at + item);
    out[items + item] = read_imagef(halves, halves_at + item);
}
"""

# Every group writes a number and checks its neighbour's, round after round.
_ROUNDS = """
__kernel void rounds(
    __global uchar *state_base, long state_at, __global uchar *out_base, long out_at)
{
    __global int *state = (__global int *)(state_base + state_at);
    __global int *out = (__global int *)(out_base + out_at);
    const int group = get_group_id(0), groups = get_num_groups(0);
    waiting others = begin(state, 0);
    int wrong = 0;
    for (int round = 1; round <= 100; round++) {
        if (get_local_id(0) == 0) out[group] = round;
        arrive(&others, group, groups);
        await_others(&others);
        if (get_local_id(0) == 0 && out[(group + 1) % groups] != round) wrong = 1;
        arrive(&others, group, groups);
        await_others(&others);
    }
    if (get_local_id(0) == 0) out[group] = wrong ? -1 : group;
}
"""

_ADDRESS = """
__kernel void address(__global int *base, long at)
{
    __global int *memory = (__global int *)((__global uchar *)base + at);
    memory[get_global_id(0)] = memory[get_global_id(0)] * 3 + 1;
}
"""

# Changes the numbers of one buffer and writes them to another. Bytes beyond the vectors of four are
# read and written one by one.
_STORAGES = {
    "floats": """
__kernel void floats(
    __global const uchar *from_base, long from_at, __global uchar *to_base, long to_at)
{
    __global const float4 *from = (__global const float4 *)(from_base + from_at);
    __global float4 *to = (__global float4 *)(to_base + to_at);
    const int item = get_global_id(0);
    to[item] = from[item] * (float4)(3.0f) + (float4)(1.0f);
}
""",
    "halves": """
__kernel void halves(
    __global const uchar *from_base, long from_at, __global uchar *to_base, long to_at)
{
    __global const half *from = (__global const half *)(from_base + from_at);
    __global half *to = (__global half *)(to_base + to_at);
    const int item = get_global_id(0), last = 4 * get_global_size(0) + item;
    vstorea_half4(vloada_half4(item, from) * (float4)(3.0f) + (float4)(1.0f), item, to);
    vstore_half(vload_half(last, from) * 3.0f + 1.0f, last, to);
}
""",
    "bytes": """
__kernel void bytes(
    __global const uchar *from_base, long from_at, __global uchar *to_base, long to_at)
{
    __global const uchar *from = from_base + from_at;
    __global uchar *to = to_base + to_at;
    const int item = get_global_id(0), last = 4 * get_global_size(0) + item;
    const int4 four = convert_int4(((__global const uchar4 *)from)[item]);
    ((__global uchar4 *)to)[item] = convert_uchar4(four * (int4)(3) + (int4)(1));
    to[last] = convert_uchar(convert_int(from[last]) * 3 + 1);
}
""",
}

# Groups claim chunks of one stage after the other and continue when all are done, like those of a
# persistent kernel. The result of a chunk depends on its neighbour in the previous stage. A group
# that has waited for seconds gives up.
_CLAIMS = """
#if defined(__x86_64__) && defined(__linux__)
#define MOST_TURNS 50000
#else
#define MOST_TURNS 200000000
#endif

__kernel void claims(
    __global uchar *counters_base, long counters_at,
    __global uchar *values_base, long values_at,
    int stages, int chunks)
{
    volatile __global int *claimed = (volatile __global int *)(counters_base + counters_at);
    __global uint *values = (__global uint *)(values_base + values_at);
    for (int stage = 0; stage < stages; stage++, claimed += 2) {
        __global uint *from = values + stage * chunks, *to = from + chunks;
        while (*claimed < chunks) {
            const int chunk = atomic_inc(claimed);
            if (chunk >= chunks) break;
            uint value = from[(chunk + 1) % chunks];
            for (int i = 0; i < 64; i++) value = value * 1664525u + 1013904223u;
            to[chunk] = value;
            mem_fence(CLK_GLOBAL_MEM_FENCE);
            atomic_inc(claimed + 1);
        }
        for (int turn = 0; claimed[1] < chunks; turn++) {
            if (turn > MOST_TURNS) return;
            wait_a_while(turn);
        }
        mem_fence(CLK_GLOBAL_MEM_FENCE);
    }
}
"""

# Waits for the host's flag and answers it.
_ANSWER = """
__kernel void answer(__global int *state, __global uint *base, long at)
{
    waiting others = begin(state, (__global uint *)((__global uchar *)base + at));
    await_host(&others, 1, get_global_id(0) == 0);
    tell_host(&others, get_num_groups(0));
}
"""

VECTORS = 21  # vectors per row of `branches`
# An empty kernel that makes compilers load their libraries.
NOTHING = "__kernel void nothing(__global int *out) { out[0] = 0; }"


def _branches(vectors: int) -> str:
    """Return a kernel that reads two rows of numbers per work-item behind nested conditions.

    Each read has a condition of its own inside a condition of a loop, as in tiles with odd channel
    counts. A driver that supports at most 79 branches loses what the last ones read.
    """
    numbers = range(vectors)
    lanes = [[f"at + {4 * n + lane}" for lane in range(4)] for n in numbers]
    guarded = [[f"{index} < last ? from[{index}] : 0.0f" for index in four] for four in lanes]
    begun = " ".join(f"float4 v{n} = (float4)(0.0f);" for n in numbers)
    read = "\n            ".join(f"v{n} = (float4)({', '.join(guarded[n])});" for n in numbers)
    changed = [f"v{n} * (float4)(3.0f) + (float4)(1.0f)" for n in numbers]
    written = "\n        ".join(f"vstore4({changed[n]}, {n}, to + at);" for n in numbers)
    return f"""
__kernel void branches(
    __global const uchar *from_base, long from_at, __global uchar *to_base, long to_at)
{{
    __global const float *from = (__global const float *)(from_base + from_at);
    __global float *to = (__global float *)(to_base + to_at);
    const int step = {4 * vectors} * get_global_size(0), last = 2 * step;
    int passed = -1;
    {begun}
    for (int at = {4 * vectors} * get_global_id(0); at < last; at += step) {{
        if (at != passed) {{
            passed = at;
            {read}
        }}
        {written}
    }}
}}
"""


def _program(text: str) -> Program:
    """Build a program like those of plans, so that the probe's result holds for them."""
    return Program(text, build_options())


SELF_TEST = {
    **{name: _program(text) for name, text in _STORAGES.items()},
    "branches": _program(_branches(VECTORS)),
}
CLAIMS = {"claims": _program(THREAD + _CLAIMS)}
HALF = _program(f"\n{HALF_ARITHMETIC}{_HALF}")  # maps 3 to 10
MATRIX = _program("".join(NVIDIA.values()) + _MATRIX)
IMAGES = _program(_IMAGES)
ROUNDS = _program(grid_barrier(OPENCL) + _ROUNDS)
ADDRESS = _program(_ADDRESS)
ANSWER = _program(grid_barrier(OPENCL) + host_handshake(OPENCL) + _ANSWER)


def joined(programs: Iterable[Program]) -> Program:
    """Join the kernels of all programs into one, which compiles much faster than one by one."""
    return _program("".join(program.text for program in programs))


def exchange(subgroups: str) -> Program:
    """Return a program in which neighbours report the sum of their numbers and their count."""
    size = SUBGROUP_SIZES[subgroups] or "get_max_sub_group_size()"
    text = EXCHANGES[subgroups] + _EXCHANGE.replace("REACH", str(size))
    return Program(text, build_options(subgroups))


def dots(name: str, rounds: bool) -> Program:
    """Return a program that sums products of bytes and, if it `rounds`, stores bytes."""
    functions = DOTS[name] if rounds else {"": DOTS[name]["add_few_dots"]}
    text = "".join(functions.values()) + (_BYTES if rounds else _DOTS)
    return Program(text, build_options(name))
