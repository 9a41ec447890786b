"""Inputs and outputs that kernels reach in host memory by themselves: no copies, no commands.

What goes in crosses the bus once, in a stage of its own, since the layers read it again and again.
What comes out is written where the caller finds it, unless another kernel reads it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fourfold.kernel.expression import load, minimum
from fourfold.kernel.kernel import Kernel
from fourfold.plan import Argument, Buffer, BufferUse, Launch
from fourfold.types import DType

ITEMS = 128
VECTORS = 2  # that a work-item asks for before the first has come
WORD, VECTOR = 4, 16  # bytes


@dataclass(frozen=True)
class Reached:
    """Kernels and launches with those that fetch inputs, all buffers, and where ports moved to."""

    kernels: list[Kernel]
    launches: list[Launch]
    buffers: list[Buffer]
    moved: dict[int, int]


def reach_ports(
    kernels: Sequence[Kernel], launches: Sequence[Launch], buffers: Sequence[Buffer]
) -> Reached:
    """The same work, its inputs and outputs in host memory."""
    read = _read_buffers(kernels, launches)
    reached = Reached([*kernels], [*launches], [*buffers], {})
    for number, buffer in enumerate(buffers):
        if not buffer.bytes:
            continue
        if buffer.kind == "output" and number not in read:
            reached.buffers[number] = Buffer(buffer.name, "host", buffer.bytes)
        elif buffer.kind == "input" and number in read:
            reached.moved[number] = len(reached.buffers)
            reached.buffers.append(Buffer(buffer.name, "host", buffer.bytes))
            kernel, launch = _fetch(buffer, reached.moved[number], number)
            reached.kernels.insert(0, kernel)
            reached.launches.insert(0, launch)
    return reached


def _read_buffers(kernels: Sequence[Kernel], launches: Sequence[Launch]) -> set[int]:
    found = set()
    for kernel, launch in zip(kernels, launches, strict=True):
        uses = [item for item in launch.arguments if isinstance(item, BufferUse)]
        pairs = zip(kernel.buffers, uses, strict=True)
        found |= {use.buffer for argument, use in pairs if not argument.pointer.writable}
    return found


def _fetch(buffer: Buffer, source: int, target: int) -> tuple[Kernel, Launch]:
    """Copy a buffer, in vectors of sixteen bytes; what is beyond its end is there, and unused."""
    kernel = Kernel("fetch", literal=False)
    given = kernel.pointer("given", DType.I32, source)
    taken = kernel.pointer("taken", DType.I32, target, writable=True)
    vectors = -(-buffer.bytes // VECTOR)
    (item,) = kernel.ids(-(-vectors // VECTORS), local=(ITEMS,), stay=True)
    lane = kernel.let(kernel.local_id(0), "lane")
    start = kernel.let((item - lane) * VECTORS + lane, "start")
    end = kernel.size("vectors", vectors)
    places = [start + number * ITEMS for number in range(VECTORS)]
    # The last vector stands in for those that do not exist: to read it twice costs nothing.
    known = [kernel.let(minimum(place, end - 1), "place") for place in places]
    values = [kernel.let(load(given, place, "int", 4), "value") for place in known]
    for place, value in zip(known, values, strict=True):
        kernel.store(taken, place, value)
    uses = (BufferUse(source, 0), BufferUse(target, 0))
    arguments: tuple[Argument, ...] = (*uses, *kernel.sizes.values())
    entry = "fetch" if kernel.sizes else "fetch_one"  # equal entries are equal kernels
    title = f"{buffer.name} from host memory"
    return kernel, Launch(entry, arguments, kernel.grid, kernel.local, "fetch", title)
