"""Measures the peak memory bandwidth and arithmetic throughput of a device.

Plain copy and multiply-add kernels give upper bounds for any network on the device.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click
import numpy as np
import pyopencl as cl

from fourfold.backends import backends, find_device, probe
from fourfold.backends.discovery import merge_devices
from fourfold.backends.opencl.devices import context_of
from fourfold.codegen.opencl.prelude import NVIDIA
from fourfold.device import DeviceInfo

ROUNDS = 7
COPY = """
__kernel void copy(__global const float4 *from, __global float4 *to)
{
    const size_t start = get_group_id(0) * (get_local_size(0) * %(each)d) + get_local_id(0);
    for (int step = 0; step < %(each)d; step++)
        to[start + step * get_local_size(0)] = from[start + step * get_local_size(0)];
}
"""
MULTIPLY = """
__kernel void multiply(__global float *out, const float start)
{
    float%(wide)d %(names)s;
    const float%(wide)d by = start * 0.999f, more = start * 0.001f;
    %(set)s
    for (int step = 0; step < %(steps)d; step++) { %(body)s }
    const float%(wide)d sum = %(sum)s;
    if (sum.s0 == 12345.0f) out[get_global_id(0)] = sum.s1;
}
"""
MATRIX = """
__kernel void multiply(__global float *out, const uint start)
{
    float4 %(names)s;
    const uint2 upper = start, lower = start + 1, right = start + 2;
    %(set)s
    for (int step = 0; step < %(steps)d; step++) { %(body)s }
    const float4 sum = %(sum)s;
    if (sum.x == 12345.0f) out[get_global_id(0)] = sum.y;
}
"""


@dataclass(frozen=True)
class Ceilings:
    """Peak rates per second: bytes read and written, float operations, matrix unit operations."""

    bytes: float
    flops: float
    matrix_flops: float | None = None

    def __str__(self) -> str:
        text = f"copy {self.bytes / 1e9:.0f} GB/s, multiply-add {self.flops / 1e9:.0f} GFLOP/s"
        if self.matrix_flops is not None:
            text += f", matrix units {self.matrix_flops / 1e9:.0f} GFLOP/s"
        return text


def by_opencl(device: DeviceInfo) -> DeviceInfo | None:
    """Return the OpenCL device of the same hardware; None if there is none."""
    if device.api == "opencl":
        return device
    offered = backends()["opencl"].devices()
    (same, *_) = merge_devices([device, *offered])
    return next((one for one in offered if one.address in same.others), None)


def measure_ceilings(device: DeviceInfo) -> Ceilings:
    bench = _Bench(device)
    matrix = bench.matrix() if probe(device).matrix_units else None
    return Ceilings(bench.copy(), bench.multiply(), matrix)


class _Bench:
    def __init__(self, device: DeviceInfo) -> None:
        own = context_of(device).pointer
        assert own is not None
        self.device, self.context = device, cl.Context.from_int_ptr(own.value)
        mode = cl.command_queue_properties.PROFILING_ENABLE
        self.queue = cl.CommandQueue(self.context, properties=mode)

    def seconds(self, text: str, name: str, items: int, local: int, *arguments: object) -> float:
        """Return the shortest time of several runs, by the device's clock."""
        kernel = cl.Kernel(cl.Program(self.context, text).build(), name)
        kernel.set_args(*arguments)
        times = []
        for _ in range(ROUNDS):
            event = cl.enqueue_nd_range_kernel(self.queue, kernel, (items,), (local,))
            event.wait()
            times.append((event.profile.end - event.profile.start) * 1e-9)
        return min(times)

    def copy(self) -> float:
        each, local = (512, 1) if self.device.is_cpu else (4, 256)
        size = (64 if self.device.is_cpu else 512) << 20
        flags = cl.mem_flags.READ_WRITE
        buffers = [cl.Buffer(self.context, flags, size) for _ in range(2)]
        for buffer in buffers:
            cl.enqueue_fill_buffer(self.queue, buffer, np.float32(1), 0, size)
        items = size // 16 // each
        spent = self.seconds(COPY % {"each": each}, "copy", items, local, *buffers)
        for buffer in buffers:
            buffer.release()
        return 2 * size / spent

    def multiply(self) -> float:
        """Measure independent sums in registers, in vectors of eight on a CPU."""
        wide, sums, steps = (8, 12, 1 << 16) if self.device.is_cpu else (4, 4, 1 << 10)
        values = [f"a{number}" for number in range(sums)]
        text = MULTIPLY % {
            "wide": wide,
            "names": ", ".join(values),
            "set": " ".join(f"{one} = start + {place}.0f;" for place, one in enumerate(values)),
            "steps": steps,
            "body": " ".join(f"{one} = {one} * by + more;" for one in values),
            "sum": " + ".join(values),
        }
        items, local = self._grid()
        spent = self.seconds(text, "multiply", items, local, self._out(), np.float32(0.5))
        return 2.0 * wide * sums * steps * items / spent

    def matrix(self) -> float:
        """Measure eight independent products of 16 x 8 x 16 per warp."""
        sums, steps = 8, 1 << 10
        values = [f"a{number}" for number in range(sums)]
        text = NVIDIA["matrix_multiply"] + MATRIX % {
            "names": ", ".join(values),
            "set": " ".join(f"{one} = 0.0f;" for one in values),
            "steps": steps,
            "body": " ".join(f"matrix_multiply(&{one}, upper, lower, right);" for one in values),
            "sum": " + ".join(values),
        }
        items, local = self._grid()
        spent = self.seconds(text, "multiply", items, local, self._out(), np.uint32(0))
        return 2.0 * 16 * 8 * 16 * sums * steps * (items / 32) / spent

    def _grid(self) -> tuple[int, int]:
        units = self.device.compute_units
        return (units * 8, 1) if self.device.is_cpu else (units * 2048, 256)

    def _out(self) -> cl.Buffer:
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, 4 * self._grid()[0])


@click.command(help=__doc__)
@click.option("--device", default="auto", show_default=True)
def main(device: str) -> None:
    info = find_device(device)
    ceilings = measure_ceilings(info)
    click.echo(f"{info}: {ceilings}")
    click.echo(asdict(ceilings))


if __name__ == "__main__":
    main()
