"""Inputs and outputs that kernels reach in host memory by themselves: no copies, no commands.

What goes in crosses the bus once, in a stage of its own, since the layers read it again and again.
It does so piece by piece, while the host still copies the next ones to where the kernel finds them.
What comes out is written where the caller finds it, unless another kernel reads it too, or it is
much: numbers of few bytes each cross the bus one by one, and the copy engine is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fourfold.kernel.expression import load, maximum, minimum, where
from fourfold.kernel.kernel import Kernel
from fourfold.plan import Argument, Buffer, BufferUse, Launch
from fourfold.types import DType
from fourfold.words import BYTES, PIECE, pieces

ITEMS = 128
VECTOR = 16  # bytes
MUCH = 64 << 10  # bytes
VECTORS = PIECE // VECTOR // ITEMS  # that a work-item asks for before the first has come


@dataclass(frozen=True)
class Reached:
    """Kernels and launches with those that fetch inputs, all buffers, and where ports moved to."""

    kernels: list[Kernel]
    launches: list[Launch]
    buffers: list[Buffer]
    moved: dict[int, int]
    words: int | None  # the buffer by which kernel and host tell each other how far they are


def reach_ports(
    kernels: Sequence[Kernel], launches: Sequence[Launch], buffers: Sequence[Buffer]
) -> Reached:
    """The same work, its inputs and outputs in host memory."""
    read = _read_buffers(kernels, launches)
    fetches: list[tuple[Kernel, Launch]] = []
    made, moved, given = [*buffers], {}, 0
    for number, buffer in enumerate(buffers):
        if not buffer.bytes:
            continue
        if buffer.kind == "output" and number not in read and buffer.bytes <= MUCH:
            made[number] = Buffer(buffer.name, "host", buffer.bytes)
        elif buffer.kind == "input" and number in read:
            moved[number] = len(made)
            made.append(Buffer(buffer.name, "host", buffer.bytes))
            fetches.append(_fetch(buffer, moved[number], number, given))
            given += pieces(buffer.bytes)
    words = len(made) if fetches else None
    if fetches:
        made.append(Buffer("words", "words", BYTES))
    first, second = [kernel for kernel, _ in fetches], [launch for _, launch in fetches]
    return Reached([*first, *kernels], [*second, *launches], made, moved, words)


def _read_buffers(kernels: Sequence[Kernel], launches: Sequence[Launch]) -> set[int]:
    found = set()
    for kernel, launch in zip(kernels, launches, strict=True):
        uses = [item for item in launch.arguments if isinstance(item, BufferUse)]
        pairs = zip(kernel.buffers, uses, strict=True)
        found |= {use.buffer for argument, use in pairs if not argument.pointer.writable}
    return found


def _fetch(buffer: Buffer, source: int, target: int, before: int) -> tuple[Kernel, Launch]:
    """Copy a buffer, of which so many pieces of others come `before`, each as soon as it is there.

    What is beyond its end is there, and unused. The first group has no piece: it asks the host.
    """
    kernel = Kernel("fetch", literal=False)
    given = kernel.pointer("given", DType.I32, source)
    taken = kernel.pointer("taken", DType.I32, target, writable=True)
    count = pieces(buffer.bytes)
    (item,) = kernel.ids((count + 1) * ITEMS, local=(ITEMS,), stay=True)
    lane = kernel.let(kernel.local_id(0), "lane")
    ahead, end = kernel.size("before", before), kernel.size("end", before + count)
    kernel.await_host(where(item < ITEMS, end, ahead + item / ITEMS), item < 1)
    start = kernel.let((item - lane - ITEMS) * VECTORS + lane, "start")
    last = kernel.size("vectors", -(-buffer.bytes // VECTOR)) - 1
    places = [start + number * ITEMS for number in range(VECTORS)]
    # A vector that exists stands in for those that do not: to copy it twice costs nothing.
    known = [kernel.let(minimum(maximum(place, 0), last), "place") for place in places]
    values = [kernel.let(load(given, place, "int", 4), "value") for place in known]
    for place, value in zip(known, values, strict=True):
        kernel.store(taken, place, value)
    uses = (BufferUse(source, 0), BufferUse(target, 0))
    arguments: tuple[Argument, ...] = (*uses, *kernel.sizes.values())
    entry = f"fetch_{target}"  # equal entries would be equal kernels
    title = f"{buffer.name} from host memory"
    return kernel, Launch(entry, arguments, kernel.grid, kernel.local, "fetch", title)
