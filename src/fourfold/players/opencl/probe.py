"""Facts that no driver lists: found by building and running tiny kernels.

What could hang or break the driver is tried in a process of its own.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.kernel.opencl.grid_barrier import GRID_BARRIER, HOST_HANDSHAKE, STATE_WORDS
from fourfold.kernel.opencl.prelude import DOTS, EXCHANGES, NVIDIA, SUBGROUP_SIZES, build_options
from fourfold.plan import CONSTANT_ALIGNMENT, BufferUse, Program, host_protocol
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.devices import context_of, devices, run_probe
from fourfold.players.opencl.images import Images
from fourfold.players.opencl.program import build_text
from fourfold.types import TensorType

_MATRIX = """
__kernel void probe(__global float *out)
{
    float4 sum = (float4)(0.0f);
    const uint ones = 0x3c003c00u;
    matrix_multiply(&sum, (uint2)(ones), (uint2)(ones), (uint2)(ones));
    out[get_local_id(0)] = sum.x + exchange((float)get_local_id(0), 1);
}
"""

# Neighbours add up their numbers, as many of them as a sub-group holds.
_EXCHANGE = """
__kernel void probe(__global float *out)
{
    const int row = get_local_size(0), item = get_local_id(1) * row + get_local_id(0);
    const int reach = REACH;
    float sum = item;
    for (int apart = 1; apart < row && apart < reach; apart *= 2) sum += exchange(sum, apart);
    out[2 * item] = sum;
    out[2 * item + 1] = reach;
}
"""

# Every group leaves a number and looks for its neighbour's, round after round.
_ROUNDS = """
__kernel void rounds(__global int *state, __global int *out)
{
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

_DOTS = """
__kernel void probe(__global float *out)
{
    int4 sum = (int4)(1, 1, 1, 1);
    add_few_dots(&sum, (int4)(0x04ff0201), (int4)(-1, 0x01ff807f, 0, 2));
    out[0] = (float)sum.s0;
    out[1] = (float)sum.s1;
    out[2] = (float)sum.s3;
}
"""

# Eight sums, and sixteen numbers as bytes.
_BYTES = """
__kernel void probe(__global float *out)
{
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
_SUMS = [-261.0, -379.0, 3.0]  # 1 + (1, 2, 255, 4) times -1 each, times (127, -128, -1, 1), ...
_STORED = [3, 5, 102, 0, 2, 10, 9, 8, 5, 5, 102, 0, 3, 11, 10, 9]

_ADDRESS = """
__kernel void address(__global int *base, long at)
{
    __global int *memory = (__global int *)((__global uchar *)base + at);
    memory[get_global_id(0)] = memory[get_global_id(0)] * 3 + 1;
}
"""
# The caller's word is waited for, and answered.
_WORDS = """
__kernel void answer(__global int *state, __global uint *base, long at)
{
    waiting others = begin(state, (__global uint *)((__global uchar *)base + at));
    await_host(&others, 1, get_global_id(0) == 0);
    tell_host(&others, get_num_groups(0));
}
"""
_IMAGES = """
__kernel void images(
    __global float4 *out,
    __read_only image1d_buffer_t floats,
    int floats_at,
    __read_only image1d_buffer_t halves,
    int halves_at)
{
    const int item = get_global_id(0), items = get_global_size(0);
    out[item] = read_imagef(floats, floats_at + item);
    out[items + item] = read_imagef(halves, halves_at + item);
}
"""
_CHILD = """
import sys
ordinal, name, what, *sys.path[:] = sys.argv[1:]
from fourfold.players.opencl.probe import main
main(int(ordinal), name, what)
"""
ITEMS = 256
PATIENCE = 30.0  # seconds


@cache
def probed(info: DeviceInfo, counts: bool = False) -> DeviceInfo:
    """The same device with the facts that only a trial tells.

    Whether it multiplies bytes is tried only for a graph that `counts` steps.
    """
    if counts and info.dot_products:
        tried = (info.dot_products,) if info.is_cpu else (info.dot_products, "khr")
        found = (name for name in dict.fromkeys(tried) if _adds_dots(info, name))
        info = replace(info, dot_products=next(found, ""))
    if _has_matrix_units(info):
        facts = _ask_child(info, "meetings")
        resident, reaches = facts.get("resident") is True, facts.get("reaches_host") is True
        info = replace(info, matrix_units=True, resident=resident, reaches_host=reaches)
    if info.is_cpu:  # where no kernel asks for what follows
        return info
    return with_subgroups(info if info.resident else with_images(info))


def with_images(info: DeviceInfo) -> DeviceInfo:
    """The same device with what a trial tells of images of buffers.

    It is made only where plans may have images unasked: PoCL takes a tenth of a second for it. A
    GPU's driver may die of it, as NVIDIA's does.
    """
    tell = _image_facts if info.is_cpu else lambda info: _ask_child(info, "images")
    facts = tell(info) if info.image_texels else {}
    if facts.get("images") is not True:
        return replace(info, image_texels=0, image_windows=False, prefers_images=False)
    return replace(info, image_windows=facts.get("windows") is True)


def _image_facts(info: DeviceInfo) -> dict[str, object]:
    """Whether there are images of buffers, and of windows into them."""
    few = replace(info, image_texels=ITEMS + info.alignment // 8)  # not up to where they lie
    works = _reads_images(info)
    return {"images": works, "windows": works and _reads_images(few)}


def _reads_images(info: DeviceInfo) -> bool:
    """Whether a kernel reads floats and halves through images of what lies within a buffer."""
    floats = np.random.default_rng(7).uniform(-1, 1, (ITEMS, 4)).astype(np.float32)
    halves, start = floats[::-1].astype(np.float16), CONSTANT_ALIGNMENT + 4 * info.alignment
    pieces = (np.zeros(start, np.uint8), floats.reshape(-1), halves.reshape(-1))
    block = np.concatenate([piece.view(np.uint8) for piece in pieces])
    uses = (
        BufferUse(0, start // 4, TensorType.of(floats)),
        BufferUse(0, (start + floats.nbytes) // 2, TensorType.of(halves)),
    )
    try:
        context = context_of(info)
        images, buffer = Images(context, info), cl.Buffer.of(context, block)
        program = build_text(context, Program(_IMAGES, ""))
        kernel, queue = cl.Kernel(program, "images"), cl.Queue(context)
        result = np.full((2, ITEMS, 4), np.nan, np.float32)
        out = cl.Buffer.of(context, result, writable=True)
        kernel.set_buffer(0, out)
        for number, use in enumerate(uses):
            image, first = images.of(use, buffer, block.nbytes)
            kernel.set_buffer(1 + 2 * number, image)
            kernel.set_int(2 + 2 * number, first)
        queue.replay([queue.call(kernel, (ITEMS,), (1,))])
        queue.read(out, result)
    except (cl.Error, BuildError, DeviceError):
        return False
    return np.array_equal(result[0], floats) and np.array_equal(result[1], halves)


def with_subgroups(info: DeviceInfo) -> DeviceInfo:
    """The same device with what its sub-groups do, not only say."""
    return info if exchanges(info) else replace(info, subgroups="")


def exchanges(info: DeviceInfo) -> bool:
    """Whether neighbours in a group hand each other numbers as they should, whatever its shape."""
    if not info.subgroups:
        return False
    size = SUBGROUP_SIZES[info.subgroups] or "get_max_sub_group_size()"
    text = EXCHANGES[info.subgroups] + _EXCHANGE.replace("REACH", str(size))
    try:
        context = context_of(info)
        program = build_text(context, Program(text, build_options(info.subgroups)))
        shapes = [(ITEMS,), (32, ITEMS // 32), (ITEMS // 32, 32)]
        return all(_sums_up(context, program, shape) for shape in shapes)
    except (cl.Error, BuildError, DeviceError):
        return False


def _sums_up(context: cl.Context, program: cl.Program, local: tuple[int, ...]) -> bool:
    sums, reach = run_probe(context, program, np.zeros((ITEMS, 2), np.float32), *local).T
    size = min(int(reach[0]), local[0])
    if size < 2 or size & (size - 1) or np.any(reach != reach[0]):
        return False
    wanted = np.arange(ITEMS).reshape(-1, size).sum(1)
    return np.array_equal(sums, np.repeat(wanted, size))


def _adds_dots(info: DeviceInfo, name: str) -> bool:
    """Whether a spelling of dot products is understood, and right."""
    context, packs = context_of(info), name == "x86"
    functions = DOTS[name] if packs else {"": DOTS[name]["add_few_dots"]}
    text = "".join(functions.values()) + (_BYTES if packs else _DOTS)
    try:
        program = build_text(context, Program(text, build_options(name)))
        result = run_probe(context, program, np.zeros(8, np.float32), 1)
    except (cl.Error, BuildError):
        return False
    stored = result[4:].view(np.uint8).tolist()
    return bool(result[:3].tolist() == _SUMS and (not packs or stored == _STORED))


def _has_matrix_units(info: DeviceInfo) -> bool:
    """Sixteen products of ones must add up to sixteen, in every work-item of a warp."""
    if info.kind != "gpu" or "nvidia" not in (info.vendor + info.platform).lower():
        return False
    context = context_of(info)
    try:
        program = build_text(context, Program("".join(NVIDIA.values()) + _MATRIX, ""))
        result = run_probe(context, program, np.zeros(32, np.float32), 32)
    except (cl.Error, BuildError):
        return False
    neighbours = np.arange(32) ^ 1
    return bool(np.array_equal(result, 16.0 + neighbours))


def _ask_child(info: DeviceInfo, what: str) -> dict[str, object]:
    """What a process of its own finds out; one that hangs or dies has found nothing."""
    command = [sys.executable, "-c", _CHILD, str(info.ordinal), info.name, what, *sys.path]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_resident(info: DeviceInfo) -> bool:
    """Whether a group a unit is there at once, and sees what the others wrote before they met."""
    context, groups = context_of(info), info.compute_units
    queue = cl.Queue(context)
    program = build_text(context, Program(GRID_BARRIER + _ROUNDS, ""))
    state, out = (
        cl.Buffer.of(context, np.zeros(size, np.int32), writable=True) for size in (64, groups)
    )
    kernel = cl.Kernel(program, "rounds")
    kernel.set_buffer(0, state)
    kernel.set_buffer(1, out)
    queue.replay([queue.call(kernel, (groups * ITEMS,), (ITEMS,))])
    result = np.full(groups, -1, np.int32)
    queue.read(out, result)
    return bool(np.array_equal(result, np.arange(groups)))


def _reaches_host(info: DeviceInfo) -> bool:
    """Whether a kernel reads and writes mapped host memory that it knows by its address alone."""
    context = context_of(info)
    queue = cl.Queue(context)
    program = build_text(context, Program(_ADDRESS, ""))
    buffer = cl.Buffer(context, ITEMS * 4, host=True)
    memory = np.frombuffer(queue.map(buffer, ITEMS * 4), np.int32)
    kernel = cl.Kernel(program, "address")
    kernel.set_buffer(0, None)
    kernel.set_long(1, memory.ctypes.data)
    for trial in range(20):
        memory[:] = np.arange(ITEMS) + trial
        queue.replay([queue.call(kernel, (ITEMS,), (ITEMS,))])
        queue.finish()
        if not np.array_equal(memory, (np.arange(ITEMS) + trial) * 3 + 1):
            return False
    return True


def _hears_host(info: DeviceInfo) -> bool:
    """Whether a running kernel hears what the host says meanwhile, and the host its answer.

    Python has no fences: only on x86 do others see what it writes in the order of the program.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    context = context_of(info)
    queue = cl.Queue(context)
    program = build_text(context, Program(GRID_BARRIER + HOST_HANDSHAKE + _WORDS, ""))
    state = cl.Buffer.of(context, np.zeros(STATE_WORDS, np.int32), writable=True)
    buffer = cl.Buffer(context, host_protocol.BYTES, host=True)
    memory = np.frombuffer(queue.map(buffer, host_protocol.BYTES), np.int32)
    kernel = cl.Kernel(program, "answer")
    kernel.set_buffer(0, state)
    kernel.set_buffer(1, None)
    kernel.set_long(2, memory.ctypes.data)
    for _ in range(5):
        memory[:] = 0
        queue.replay([queue.call(kernel, (info.compute_units * ITEMS,), (ITEMS,))])
        queue.flush()
        time.sleep(0.001)
        early = memory[host_protocol.DONE]
        memory[host_protocol.READY] = 1
        queue.finish()
        if early or memory[host_protocol.LATE] or not memory[host_protocol.DONE]:
            return False
    return True


def _meeting_facts(info: DeviceInfo) -> dict[str, object]:
    """Whether groups meet each other, and the host."""
    resident = _is_resident(info)
    try:
        reaches = _reaches_host(info) and _hears_host(info)
    except (cl.Error, BuildError):
        reaches = False
    return {"resident": resident, "reaches_host": reaches}


def main(ordinal: int, name: str, what: str) -> None:
    """Print facts of a device as JSON, if it is the one of that name."""
    tell, info = {"images": _image_facts, "meetings": _meeting_facts}[what], devices()[ordinal]
    sys.stdout.write(json.dumps(tell(info) if info.name == name else {}))
