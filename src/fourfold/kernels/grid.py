"""Which work-item does what, for kernels that make each group of four channels by itself."""

from __future__ import annotations

from collections.abc import Iterator

from fourfold.device import DeviceInfo
from fourfold.kernel.byte_io import RUN
from fourfold.kernel.expression import Expression, minimum
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.view import View

GPU_GROUP = 64
CPU_CHUNK = 64
CPU_WIDTHS = range(8, 513)  # shorter lines are not worth it, longer ones too few


def plain_grid(
    kernel: Kernel, device: DeviceInfo, target: View
) -> Iterator[tuple[Expression, Expression]]:
    """Yields (pixel, slice) once; what the caller writes then runs for every one of them.

    A GPU gets one work-item each; a CPU, where a work-item has a cost, a run of pixels.
    """
    pixels, slices = target.type.pixels, target.type.slices
    if not device.is_cpu:
        first, second = kernel.ids(pixels, slices, local=gpu_group(pixels, slices))
        yield first, second
        return
    shape = target.type.shape
    if len(shape) > 2 and shape[-2] in CPU_WIDTHS and pixels > shape[-2]:
        yield from _lines(kernel, target)
        return
    chunk = max(1, min(CPU_CHUNK, pixels))
    chunks = -(-pixels // chunk)
    first, second = kernel.ids(chunks, slices)
    start = kernel.let(first * kernel.size("chunk", chunk), "start")
    stop = kernel.let(minimum(start + kernel.size("chunk", chunk), target.pixels), "stop")
    with kernel.loop(stop, start, title="p") as pixel:
        yield pixel, second


def group_for(device: DeviceInfo, rows: int, columns: int) -> tuple[int, int]:
    """The work-group of a grid whose work-items have nothing to do with each other: one of its own
    for each on a CPU, and where one launch packs the groups of its stages.
    """
    return (1, 1) if device.is_cpu or device.resident else gpu_group(rows, columns)


def runs_of_four(kernel: Kernel, target: View) -> Iterator[tuple[Expression, Expression]]:
    """The same for a CPU by four pixels at a time, which are at least so many: the last ones may
    be made twice.
    """
    pixels = target.type.pixels
    runs, chunk = -(-pixels // RUN), CPU_CHUNK // RUN
    first, second = kernel.ids(-(-runs // chunk), target.type.slices)
    start = kernel.let(first * (chunk * RUN), "start")
    stop = kernel.let(minimum(start + chunk * RUN, target.pixels), "stop")
    last = kernel.size("last_run", pixels - RUN)
    with kernel.loop(stop, start, RUN, title="run") as run:
        yield kernel.let(minimum(run, last) if pixels % RUN else run, "p"), second


def _lines(kernel: Kernel, target: View) -> Iterator[tuple[Expression, Expression]]:
    """The same by whole lines: the coordinates of their pixels need no division."""
    width = target.type.shape[-2]
    lines = target.type.pixels // width
    chunk = max(1, CPU_CHUNK // width)
    first, second = kernel.ids(-(-lines // chunk), target.type.slices)
    start = kernel.let(first * kernel.size("chunk", chunk), "start")
    end = kernel.size("lines", lines)
    stop = kernel.let(minimum(start + kernel.size("chunk", chunk), end), "stop")
    with kernel.loop(stop, start, title="line") as line:
        origin = kernel.let(line * target.axis(target.type.rank - 2), "origin")
        above = target.line_coordinates(line)
        with kernel.loop(target.axis(target.type.rank - 2), title="column") as column:
            pixel = kernel.let(origin + column, "p")
            target.known[pixel] = [*above, column]
            yield pixel, second


def gpu_group(pixels: int, slices: int) -> tuple[int, int]:
    """Neighbouring work-items on neighbouring pixels, as far as there are any."""
    across = 1
    while across < pixels and across < GPU_GROUP:
        across *= 2
    return across, max(1, min(GPU_GROUP // across, 1 << (slices - 1).bit_length()))
