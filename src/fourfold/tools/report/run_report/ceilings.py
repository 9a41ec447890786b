"""Performance limits of a device, measured with three short kernels: one moves numbers through
memory, one reads a small array again and again, and one only multiplies and adds.
"""

from __future__ import annotations

from contextlib import closing
from functools import reduce

import numpy as np

from fourfold.backends import backend_of
from fourfold.codegen.expression import load
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import find_language, make_target
from fourfold.compiler.lower.bind import Bound, bound_to
from fourfold.compiler.lower.program import write_list
from fourfold.compiler.pipeline import kernel_options
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.options import CompileOptions
from fourfold.plan import ARENA, Buffer, BufferUse, Plan
from fourfold.support.log import Log
from fourfold.tools.report.run_report.record import DeviceCeilings
from fourfold.types import DType

log = Log("tools.report")
RUNS = (12, 80, 80)  # of each kernel; the shortest counts
MEMORY_BYTES = {True: 128 << 20, False: 256 << 20}  # on a CPU, on a GPU: larger than the caches
CACHE_BYTES = {True: 256 << 10, False: 4 << 20}  # on a CPU, on a GPU: fits into near caches
GROUP = 256  # work-items of a work-group on a GPU


def measure_ceilings(device: DeviceInfo) -> DeviceCeilings | None:
    """Return the limits of a device; None if the kernels do not run on it."""
    share = device.max_allocation // 4 if device.max_allocation else MEMORY_BYTES[True]
    size = min(MEMORY_BYTES[device.is_cpu], share) & ~0xFFFFF
    if size <= 0:
        return None
    reading, read = _reading(device)
    multiplying, work = _multiplying(device)
    try:
        plan = _plan(device, size, [_moving(device, size), reading, multiplying])
        with closing(backend_of(device).make_timer(device, plan)) as timer:
            timer.fill(np.zeros(size, np.uint8))
            seconds = [timer.seconds(range(at, at + 1), runs) for at, runs in enumerate(RUNS)]
    except FourfoldError as error:
        log.debug("the ceilings of %s are unknown: %s: %s", device.name, error.what, error.why)
        return None
    if min(seconds) <= 0:
        return None
    moved, cached, multiplied = seconds
    return DeviceCeilings(work / multiplied, 2 * size / moved, read / cached)


def _moving(device: DeviceInfo, size: int) -> Kernel:
    """Return a kernel for x[i] = x[i] + 1 on vectors of four: it reads as much as it writes."""
    kernel, vectors = Kernel("move", literal=True), size // 16
    each, local = (1024, 1) if device.is_cpu else (8, GROUP)
    (item,) = kernel.ids(vectors // each, local=(local,))
    place = kernel.pointer("x", DType.F32, None, writable=True)
    # Neighbouring GPU work-items read neighbouring numbers; a CPU work-item reads its own range.
    start, step = (item * each, 1) if device.is_cpu else (item, vectors // each)
    with kernel.loop(each) as turn:
        at = kernel.let(start + turn * step, "at")
        kernel.store(place, at, load(place, at, "float", 4) + 1.0)
    return kernel


def _items(device: DeviceInfo) -> tuple[int, int]:
    """Return the number of work-items that keep all units busy, and the work-group size."""
    units = max(device.units, 1)
    return (units * 8, 1) if device.is_cpu else (units * 2048, GROUP)


def _reading(device: DeviceInfo) -> tuple[Kernel, float]:
    """Return a kernel that sums a cached array repeatedly, and the bytes that it reads."""
    kernel, wide, together = Kernel("read", literal=True), 8 if device.is_cpu else 4, 8
    vectors, rounds = CACHE_BYTES[device.is_cpu] // (4 * wide), 16 if device.is_cpu else 1
    items, local = _items(device)
    (item,) = kernel.ids(items, local=(local,))
    place = kernel.pointer("x", DType.F32, None, writable=True)
    # A CPU work-item reads the whole array in order; GPU work-items read neighbouring vectors.
    many = vectors if device.is_cpu else 1 << 10
    sums = [kernel.variable(load(place, item, "float", wide), "sum") for _ in range(together)]
    with kernel.loop(rounds), kernel.loop(many // together) as turn:
        for number, value in enumerate(sums):
            at = turn * together + number
            at = at if device.is_cpu else (item + at * GROUP) % vectors
            kernel.add(value, load(place, at, "float", wide))
    kernel.store(place, item + vectors, reduce(lambda a, b: a + b, sums[1:], sums[0] + 0.0))
    return kernel, 4.0 * wide * rounds * many * items


def _multiplying(device: DeviceInfo) -> tuple[Kernel, float]:
    """Return a kernel of independent multiply-adds in registers, and its operation count."""
    wide, sums, steps = (8, 12, 1 << 15) if device.is_cpu else (4, 8, 1 << 10)
    items, local = _items(device)
    kernel = Kernel("multiply", literal=True)
    (item,) = kernel.ids(items, local=(local,))
    place = kernel.pointer("x", DType.F32, None, writable=True)
    first = kernel.let(load(place, item, "float", wide), "first")
    by, more = kernel.let(first * 0.5 + 0.999, "by"), kernel.let(first * 0.5 + 0.001, "more")
    values = [kernel.variable(first + float(number), "sum") for number in range(sums)]
    with kernel.loop(steps):
        for value in values:
            kernel.set(value, value * by + more)
    kernel.store(place, item, reduce(lambda a, b: a + b, values[1:], values[0] + 0.0))
    return kernel, 2.0 * wide * sums * steps * items


def _plan(device: DeviceInfo, size: int, kernels: list[Kernel]) -> Plan:
    language = find_language(device.language)
    target = make_target(language, device, kernel_options(CompileOptions()))
    whole = BufferUse(ARENA, 0, elements=size // 4)
    bound: list[Bound] = [bound_to(one, (whole, *one.sizes.values()), one.title) for one in kernels]
    written = write_list(bound, language, target)
    return Plan(
        name="ceilings",
        program=written.program,
        buffers=(Buffer("arena", "arena", size), Buffer("constants", "constants", 64)),
        launches=written.launches,
        inputs=(),
        outputs=(),
        constants=np.zeros(64, np.uint8),
        precision="fp32",
    )
