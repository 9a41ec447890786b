"""Grids of kernels in which every slice of four channels is computed independently."""

from __future__ import annotations

from collections.abc import Iterator

from fourfold.codegen.byte_io import RUN
from fourfold.codegen.expression import Expression, minimum
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.view import View
from fourfold.device import DeviceInfo

GPU_GROUP = 64
CPU_CHUNK = 64
# for shorter lines the loop costs too much; longer ones leave too few work-items
CPU_WIDTHS = range(8, 513)


def plain_grid(
    kernel: Kernel, device: DeviceInfo, target: View
) -> Iterator[tuple[Expression, Expression]]:
    """Yield (pixel, slice) once; the statements the caller adds run for every one of them.

    A GPU runs one work-item for each. On a CPU a work-item has overhead, so each runs several
    pixels.
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


def independent_group(device: DeviceInfo, rows: int, columns: int) -> tuple[int, int]:
    """Return the work-group of a grid of independent work-items.

    Work-items run alone on a CPU, and where one launch packs the groups of its stages.
    """
    return (1, 1) if device.is_cpu or device.resident else gpu_group(rows, columns)


def runs_of_four(kernel: Kernel, target: View) -> Iterator[tuple[Expression, Expression]]:
    """Yield (pixel, slice) for runs of four pixels on a CPU; the last run may overlap another.

    There must be at least four pixels.
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
    """Yield (pixel, slice) line by line, so that pixel coordinates need no division."""
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
    """Return a work-group in which neighboring work-items take neighboring pixels."""
    across = 1
    while across < pixels and across < GPU_GROUP:
        across *= 2
    return across, max(1, min(GPU_GROUP // across, 1 << (slices - 1).bit_length()))
