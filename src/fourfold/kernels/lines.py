"""Iteration along one axis of a tensor; a line is all elements that differ only in that axis."""

from __future__ import annotations

import math
from collections.abc import Callable

from fourfold.device import DeviceInfo
from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.view import View
from fourfold.kernels.grid import gpu_group


def line_grid(
    kernel: Kernel, device: DeviceInfo, view: View, axis: int
) -> tuple[Callable[[Expression], Expression], Expression]:
    """Start one work-item for each slice and line along `axis` (not the last axis).

    Returns a function from the position along the line to the pixel, and the slice.
    """
    shape = view.type.shape
    inner = math.prod(shape[axis + 1 : -1])
    lines = math.prod(shape[:axis]) * inner
    group = (1, 1) if device.is_cpu else gpu_group(lines, view.type.slices)
    line, slice_ = kernel.ids(lines, view.type.slices, local=group)
    step = kernel.size("line_step", inner)
    first = kernel.let(line // step * (step * view.axis(axis)) + line % step, "first")
    return lambda position: kernel.let(first + position * step, "at"), slice_
